"""The situation of a run before it is planned: positions, changes, and reasons in the data for a full run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.cost.guesses import NEW_VALUE_SHARE
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Scan
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree
from tidemill.runtime.before import analysis
from tidemill.runtime.view.arrivals import Arrived, ArrivedRows, place
from tidemill.runtime.view.definition import Terms
from tidemill.runtime.view.record import RunRecord, SourceAt
from tidemill.search.contract.run_kinds import Policy
from tidemill.settings import PlannerSettings
from tidemill.sources.adapters import adapter, describe_position, pin, tells_changes
from tidemill.sources.base import Source
from tidemill.sources.clock_source import TIME_DEPENDENT
from tidemill.sql.statements import Point


@dataclass(frozen=True, slots=True)
class Situation:
    """An analysed query with pinned sources, and their changes since `head`, the last run (None: there was none).

    `positions`: for each moment, by number of source. The first moment is the content's (or the first state's, without
    any content), then come runs without output that left something, then now. `changes`: from the first moment to now.
    `between`: the changes of each transition, empty if there is only one. `unseen`: changes that come to nothing in the
    columns that the query reads; in `changes` these sources are unchanged. `fingerprint`, `functions`: as in
    `analysis`.
    """

    document: Mapping[str, Any]
    query: Query
    terms: Terms
    settings: PlannerSettings
    head: RunRecord | None
    positions: tuple[Mapping[int, Any], ...]
    changes: Mapping[int, SourceChange]
    between: tuple[Mapping[int, SourceChange], ...]
    fingerprint: str
    functions: Mapping[str, str]
    unseen: Mapping[int, SourceChange] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return self.terms.policy

    @property
    def old(self) -> Mapping[int, Any]:
        """The positions at the first moment."""
        return self.positions[0]

    @property
    def new(self) -> Mapping[int, Any]:
        """The positions now."""
        return self.positions[-1]

    @property
    def counted(self) -> Mapping[int, int]:
        """The present rows of the sources that count them themselves."""
        rows = {n: adapter(s.entry).rows(self.new.get(n)) for n, s in self.query.sources.items()}
        return {n: known for n, known in rows.items() if known is not None}

    @property
    def first(self) -> bool:
        """True if there was no run with output yet."""
        return self.head is None or not self.head.filled

    @property
    def prepared(self) -> bool:
        """True if there was no run with output yet, but runs without output have left states."""
        return self.first and self.head is not None and bool(self.head.states)

    @property
    def changed(self) -> bool:
        return any(c.changed for c in self.changes.values())

    @property
    def clock(self) -> int | None:
        """The clock's time in this run (epoch microseconds); None if the query does not read it."""
        number = self.query.clock
        return None if number is None else int(self.new[number]["clock"])

    @property
    def clock_moved(self) -> bool:
        """True if the clock shows something else, as far as the query reads it, than in the last run."""
        return self.query.clock is not None and self.changes[self.query.clock].changed

    @property
    def time_dependent(self) -> Sequence[str]:
        """The expressions that read the clock where no rule maintains them."""
        return tuple(self.document["findings"].get("time_dependent") or ())

    @property
    def source_bytes(self) -> float | None:
        """The bytes of all sources; None if those of one are unknown."""
        sizes = [c.bytes for n, c in self.changes.items() if self.query.sources[n].kind != "static"]
        return None if any(s is None for s in sizes) else sum(s for s in sizes if s is not None)

    @property
    def idle(self) -> bool:
        """True if there is nothing to do: neither a source nor anything else has changed."""
        return not (self.first or self.changed or self._unfollowed() or self._meaning_changed() is not None)

    def data_reason(self) -> str | None:
        """Returns the reason in the data, or around it, that forces a full run; None if there is none."""
        for number, change in sorted(self.changes.items()):
            if change.changed and change.reason is not None:
                return _with_source(change.reason, self.query.sources[number].name)
        if (meaning := self._meaning_changed()) is not None:
            return meaning
        if self.time_dependent and self.clock_moved:
            return f"{TIME_DEPENDENT}: {self.time_dependent[0]}"
        unfollowed = self._unfollowed()
        return f"NOT_INCREMENTAL: {unfollowed[0]} cannot tell its changes" if unfollowed else None

    def _meaning_changed(self) -> str | None:
        assert self.head is not None or self.first
        if self.head is None or (self.first and not self.prepared):
            return None
        for name, digest in self.functions.items():
            # Earlier versions recorded no SQL functions.
            if self.head.functions.get(name, digest) != digest:
                return f"FUNCTION_CHANGED: {name}"
        if self.head.fingerprint != self.fingerprint:
            return "SCHEMA_CHANGED: the query reads its sources in another way than at the last run"
        return None

    def _unfollowed(self) -> list[str]:
        """Returns the names of the sources that are not constant and cannot tell changes."""
        return [s.name for s in self.query.sources.values() if not tells_changes(s.entry)]

    def sources_at(self, values: Mapping[int, Mapping[str, float]] | None = None) -> tuple[SourceAt, ...]:
        """Returns the positions of this run, for its record. `values`: distinct values that it has counted."""
        counted = values or {}
        return tuple(
            SourceAt(s.name, s.id, s.kind, self.new[n], counted.get(n) or self.changes[n].values)
            for n, s in sorted(self.query.sources.items())
            if _recorded(s.entry)
        )

    def arrived(self, schedule: Sequence[Point], number: int) -> Arrived:
        """Returns the arrivals since the positions at the first moment. `number`: of the run's point."""
        head = self.head
        since = None
        if head is not None:
            since = head.output_run if head.filled else min(head.moments, default=None)
        rows: dict[str, ArrivedRows | None] = {}
        for n, change in {**self.changes, **self.unseen}.items():
            source = self.query.sources[n]
            if source.kind not in ("static", "clock"):
                rows[source.name] = _counted(change) if self.old.get(n) is not None else None
        return Arrived(place(schedule, number), number == len(schedule), since, rows if since is not None else {})

    def position_texts(self) -> dict[str, str]:
        """Returns the positions as the column of SHOW REFRESHES shows them."""
        return _texts(self.query, dict(self.new))

    def old_position_texts(self) -> dict[str, str]:
        head = self.head
        return _texts(self.query, {n: head.position_of(s.name) for n, s in self.query.sources.items()}) if head else {}


def _with_values(change: SourceChange, head: RunRecord | None, name: str) -> SourceChange:
    """Returns a change with the distinct values of fields, as they are with the rows that came and went.

    A field of which more than every tenth row has a value of its own gets new values with new rows.
    """
    known, rows, counted = head.values_of(name) if head is not None else {}, change.rows, _counted(change)
    if not known or not rows or counted is None:
        return replace(change, values=known)
    before = max(1.0, rows - counted[0] + counted[1])
    grown = {f: v * rows / before if v > NEW_VALUE_SHARE * before else v for f, v in known.items()}
    return replace(change, values=grown)


def _counted(change: SourceChange) -> ArrivedRows | None:
    """Returns inserts and deletes; None if they were not counted."""
    if not change.changed:
        return 0.0, 0.0
    return None if change.inserts is None or change.deletes is None else (change.inserts, change.deletes)


def _texts(query: Query, positions: Mapping[int, Any]) -> dict[str, str]:
    known = {s.name: positions.get(n) for n, s in query.sources.items() if s.kind != "clock"}
    return {name: describe_position(position) for name, position in known.items() if position is not None}


def _recorded(entry: Mapping[str, Any]) -> bool:
    return not entry.get("constant")


def _with_source(reason: str, name: str) -> str:
    code, _, text = reason.partition(":")
    return f"{code}: {name}: {text.strip()}" if text.strip() else f"{code}: {name}"


def _fields_read(tree: Tree) -> dict[int, frozenset[str]]:
    """Returns the fields that a query reads, by number of source."""
    found: dict[int, frozenset[str]] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        pending += node.inputs
        if isinstance(node.op, Scan):
            found[node.op.source] = found.get(node.op.source, frozenset()) | {field for _, field in node.op.columns}
    return found


def _as_read(entry: Source, read: Collection[str]) -> Source:
    """Returns the entry of a Delta table with only the columns that the query reads; others do not concern the view."""
    if entry["kind"] != "delta":
        return entry
    return {**entry, "fields": [field for field in entry["fields"] if field[0] in read]}


def survey(
    jvm: Jvm,
    document: Mapping[str, Any],
    head: RunRecord | None,
    terms: Terms,
    settings: PlannerSettings,
    at: Mapping[int, Any] | None = None,
) -> Situation:
    """Pins all sources of an analysed query. Returns the situation. No Spark job runs.

    `at`: positions, by number of source, that were pinned before.
    """
    with jvm.walls.part("analysis"):
        query, fingerprint = analysis.read(document)
    with jvm.walls.part("sources"):
        return _surveyed(jvm, document, query, fingerprint, head, terms, settings, at)


def _surveyed(
    jvm: Jvm,
    document: Mapping[str, Any],
    query: Query,
    fingerprint: str,
    head: RunRecord | None,
    terms: Terms,
    settings: PlannerSettings,
    at: Mapping[int, Any] | None,
) -> Situation:
    numbers = sorted(query.sources)
    read = _fields_read(query.root)
    entries = [_as_read(query.sources[n].entry, read.get(n, frozenset())) for n in numbers]
    since = [head.position_of(query.sources[n].name) if head is not None else None for n in numbers]
    pinned = pin(jvm, entries, since, [at.get(n) for n in numbers] if at is not None else None, query.number)
    names = [query.sources[n].name for n in numbers]
    count = len(head.stands_at) if head is not None else 1
    moments = [[head.position_of(name, i) for name in names] for i in range(count)] if head is not None else [since]
    moments.append([p.position for p in pinned])
    changes = {n: _with_values(p.change, head, query.sources[n].name) for n, p in zip(numbers, pinned, strict=True)}
    between: tuple[Mapping[int, SourceChange], ...] = ()
    if len(moments) > 2:
        steps = [pin(jvm, entries, earlier, later) for earlier, later in pairwise(moments)]
        between = tuple(
            {n: replace(p.change, values=changes[n].values) for n, p in zip(numbers, step, strict=True)}
            for step in steps
        )
    return Situation(
        document=document,
        query=query,
        terms=terms,
        settings=settings,
        head=head,
        positions=tuple(dict(zip(numbers, positions, strict=True)) for positions in moments),
        changes=changes,
        between=between,
        fingerprint=fingerprint,
        functions=analysis.functions(document),
    )
