"""The states: those that are kept between runs and why, and the candidates that are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def state(shown: Mapping[str, Any]) -> str:
    """A line per candidate state of the query, the kept ones first."""
    lines = []
    for kept, word in ((True, "kept"), (False, "not kept")):
        for s in shown["states"]:
            if s["kept"] is kept:
                size = f", {s['bytes']} bytes" if s["bytes"] is not None else ""
                lines.append(f"{word}: {s['name']}, {s['form']} of {s['of']}")
                order = f", in the order of {s['order']}" if s["order"] is not None else ""
                lines.append(f"  about {s['rows']} rows{size}{order}; {s['reason']}")
    return "\n".join(lines) or "nothing is kept beside the view's content, and nothing could be"
