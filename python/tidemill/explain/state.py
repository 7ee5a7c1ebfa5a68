"""The states: those that are kept between runs and why, and the candidates that are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def state(shown: Mapping[str, Any]) -> str:
    """The budget, if there is one, then a few lines per candidate state of the query, the kept ones first."""
    lines = list(_budget(shown))
    for kept, word in ((True, "kept"), (False, "not kept")):
        for s in shown["states"]:
            if s["kept"] is kept:
                about = "about " if s["estimated"] else ""
                size = f", {about}{s['bytes']} bytes" if s["bytes"] is not None else ""
                lines.append(f"{word}: {s['name']}, {s['form']} of {s['of']}")
                order = f", in the order of {s['order']}" if s["order"] is not None else ""
                lines.append(f"  about {s['rows']} rows{size}{order}; {s['reason']}")
                lines += [f"  {worth}" for worth in _worth(s)]
    return "\n".join(lines) or "nothing is kept beside the view's content, and nothing could be"


def _budget(shown: Mapping[str, Any]) -> Iterator[str]:
    if shown["budget"] is not None:
        taken = sum(s["bytes"] or 0 for s in shown["states"] if s["kept"])
        yield f"STATE BUDGET: {shown['budget']} bytes, of which the kept states take {taken}"


def _worth(shown: Mapping[str, Any]) -> Iterator[str]:
    """The worth of a state to a likely run, in words."""
    if shown["needed"]:
        yield "nothing but recomputing gives a likely run's change without it"
    elif shown["benefit"] is not None:
        saved = "saves" if shown["kept"] else "would save"
        per = shown["benefit_per_byte"]
        density = "" if per is None else f", {1e6 * per:.3g} ms per megabyte"
        yield f"{saved} a likely run {shown['benefit']:.3f} ms{density}"
