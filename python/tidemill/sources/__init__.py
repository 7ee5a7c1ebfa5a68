"""Sources of views: their present positions and their changes."""

from tidemill.sources.adapters import Pinned, describe_position, pin, tells_changes

__all__ = ["Pinned", "describe_position", "pin", "tells_changes"]
