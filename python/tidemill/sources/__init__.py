"""Sources of views: how far they have got, and what is known of their changes."""

from tidemill.sources.adapters import Pinned, describe_position, pin, tells_changes

__all__ = ["Pinned", "describe_position", "pin", "tells_changes"]
