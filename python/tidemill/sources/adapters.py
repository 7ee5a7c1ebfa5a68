"""Pins all sources of a run in one call: their present positions, and their changes since the last run's positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.bridge.invoker import Invoker
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.plan.kinds import SourceKind
from tidemill.sources.base import SOURCE_REPLACED, Adapter, Position, Source, Summary
from tidemill.sources.clock_source import ClockSource
from tidemill.sources.delta_source import DeltaSource
from tidemill.sources.file_source import FileSource
from tidemill.sources.static_source import StaticSource
from tidemill.sources.view_source import ViewSource

ADAPTERS: Mapping[SourceKind, Adapter] = {
    "files": FileSource(),
    "delta": DeltaSource(),
    "view": ViewSource(),
    "static": StaticSource(),
    "clock": ClockSource(),
}


@dataclass(frozen=True, slots=True)
class Pinned:
    """A source's present position (None: it has none), and its change since an earlier position.

    `new_files`: the number of data files that came since then; None if it is not known.
    """

    position: Position
    change: SourceChange
    new_files: float | None = None


def adapter(source: Source) -> Adapter:
    """Returns the adapter for the source's kind. Raises KeyError for a kind that this version does not know."""
    return ADAPTERS[source["kind"]]


def pin(
    jvm: Invoker,
    sources: Sequence[Source],
    since: Sequence[Position] | None = None,
    at: Sequence[Position] | None = None,
    query: int | None = None,
) -> list[Pinned]:
    """Takes the positions of all sources in one call of the bridge, without a Spark job. Returns one answer per source,
    in their order.

    `since`: the position up to which each source was read before (None: never). `at`: positions that were taken
    before and count as the present ones (None: take it now). Stored source entries work too: nothing is analysed.
    `query`: the number of the query that is to be run over them. Positions may be as old as its analysis then, and tell
    rows where it takes reading some footers.
    """
    known = list(since) if since is not None else [None] * len(sources)
    old = [p if p is None or _kind(p) == s["kind"] else None for s, p in zip(sources, known, strict=True)]
    given = list(at) if at is not None else [None] * len(sources)
    asked = {"sources": [dict(s) for s in sources], "since": old, "at": given, "now": ClockSource.now()}
    answer = jvm.invoke("pin", {**asked, "query": query})
    positions = [_counted(*p) for p in zip(old, answer["positions"], answer["changes"], strict=True)]
    pinned = [
        Pinned(
            now,
            replace(adapter(source).change(source, before, now, summary), files=_files(now)),
            None if before is None or now is None else adapter(source).new_files(before, now, summary),
        )
        for source, before, now, summary in zip(sources, old, positions, answer["changes"], strict=True)
    ]
    return [
        p if (before is None) == (wanted is None) else replace(p, change=_of_another_kind(p.change))
        for p, before, wanted in zip(pinned, old, known, strict=True)
    ]


def _files(position: Position) -> float | None:
    """Returns the number of data files at a position; None if it does not tell."""
    if not isinstance(position, Mapping):
        return None
    told = position.get("file_count", position.get("files"))
    return None if told is None else float(told)


def _counted(before: Position, now: Position, summary: Summary | None) -> Position:
    """Returns the present position with its rows, where these follow from the rows before and the counted change."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping) and "rows" in now) or summary is None:
        return now
    known, came, went = before.get("rows"), summary["inserts"], summary["deletes"]
    if now["rows"] is not None or summary["reason"] or None in (known, came, went):
        return now
    return {**now, "rows": known + came - went}


def _of_another_kind(change: SourceChange) -> SourceChange:
    return replace(change, changed=True, reason=f"{SOURCE_REPLACED}: another kind of table")


def check_undisturbed(jvm: Invoker, view: str, sources: Sequence[Source], read: Sequence[Position]) -> None:
    """Checks, after a run has read `sources` at the positions `read`, that these were readable. No Spark job runs.

    Raises TIDEMILL_SOURCE_DISTURBED if one was not.
    """
    now = jvm.invoke("pin", {"sources": [dict(s) for s in sources]})["positions"]
    for source, before, after in zip(sources, read, now, strict=True):
        if before is not None and (reason := adapter(source).disturbed(source, before, after)):
            raise TidemillError("TIDEMILL_SOURCE_DISTURBED", {"view": view, "source": source["name"], "reason": reason})


def warnings(source: Source, period: float | None) -> Iterator[str]:
    """Yields warnings for a view over this source; see `Adapter.warnings`."""
    return adapter(source).warnings(source, period)


def tells_changes(source: Source) -> bool:
    """Returns True if runs over this source can be incremental. Constants count, for they never change."""
    return adapter(source).tells_changes or bool(source.get("constant"))


def mark(position: Position) -> str:
    """Returns a short text that tells the position from every other one of its source; empty without a position."""
    return ADAPTERS[_kind(position)].mark(position) if position is not None else ""


def describe_position(position: Position) -> str:
    """Returns a position as the column `positions` of SHOW REFRESHES shows it."""
    return ADAPTERS[_kind(position)].text(position)


def _kind(position: Position) -> SourceKind:
    """Returns the kind of source that has such positions."""
    match position:
        case {"version": _}:
            return "delta"
        case {"run": _}:
            return "view"
        case {"files": _}:
            return "files"
        case {"clock": _}:
            return "clock"
        case _:
            return "static"
