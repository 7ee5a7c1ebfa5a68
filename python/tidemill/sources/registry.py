"""All sources of a run at once: their present positions, and what changed since the last run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.plan.change import SourceChange
from tidemill.runtime.files import Invoker
from tidemill.sources.base import Adapter, Position, Source
from tidemill.sources.delta import DeltaSource
from tidemill.sources.files import FileSource
from tidemill.sources.static import StaticSource
from tidemill.sources.view import ViewSource

ADAPTERS: Mapping[str, Adapter] = {
    "files": FileSource(),
    "delta": DeltaSource(),
    "view": ViewSource(),
    "static": StaticSource(),
}


@dataclass(frozen=True, slots=True)
class Pinned:
    """A source's present position (None: it has none), and what changed since the position asked about."""

    position: Position
    change: SourceChange


def adapter(source: Source) -> Adapter:
    """The adapter for the source's kind; a KeyError for a kind that this version does not know."""
    return ADAPTERS[source["kind"]]


def pin(jvm: Invoker, sources: Sequence[Source], since: Sequence[Position] | None = None) -> list[Pinned]:
    """Takes the positions of all sources in one call of the bridge, without a Spark job; one answer per source, in
    their order.

    `since`: the position up to which each source was read before (None: never).  Works on stored source entries too:
    nothing is analysed.
    """
    old = list(since) if since is not None else [None] * len(sources)
    answer = jvm.invoke("pin", {"sources": [dict(s) for s in sources], "since": old})
    return [
        Pinned(now, adapter(source).change(source, before, now, summary))
        for source, before, now, summary in zip(sources, old, answer["positions"], answer["changes"], strict=True)
    ]


def tells_changes(source: Source) -> bool:
    """Whether runs over this source can be incremental; constants count, for they never change."""
    return adapter(source).tells_changes or bool(source.get("constant"))


def describe_position(position: Position) -> str:
    """A position as the column `positions` of SHOW REFRESHES shows it."""
    match position:
        case {"version": _}:
            kind = "delta"
        case {"run": _}:
            kind = "view"
        case {"files": _}:
            kind = "files"
        case _:
            kind = "static"
    return ADAPTERS[kind].text(position)
