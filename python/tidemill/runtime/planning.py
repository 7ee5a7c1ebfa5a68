"""What a run knows before it is planned: positions, what changed, and whether something forces a full run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Scan, Tree
from tidemill.plan.query import Query, read_query
from tidemill.runtime import analysis
from tidemill.runtime.arrivals import Arrived, Outlook, Rows, place
from tidemill.runtime.history import RunRow
from tidemill.runtime.record import Record, SourceAt, StoredState
from tidemill.search.costing import HELD
from tidemill.search.planner import plan_run
from tidemill.search.request import PlanRequest, planned_with
from tidemill.search.request import Point as Expected
from tidemill.search.run_plan import RunPlan, StateSpec
from tidemill.settings import PlannerSettings
from tidemill.sources.base import Source
from tidemill.sources.registry import describe_position, pin, tells_changes
from tidemill.sql.statements import Point

# Rows by which EXPLAIN and the checks of CREATE let every source change, where nothing is known: one per cent.
ASSUMED_CHANGE = 0.01
ASSUMED_ROWS = 1e6
# Expected rows from which a source is taken to change.
LEAST_ROWS = 0.5
# Reasons that the user asked for, or that no policy forbids. All others are reasons in the data: STRICT refuses them.
ALLOWED_UNDER_STRICT = ("FIRST", "REQUESTED", "POLICY")


@dataclass(frozen=True, slots=True)
class Situation:
    """A query analysed, its sources pinned, and what changed since `head`, the last run (None: there was none).

    `positions`: at each moment, by number of source: where the content stands (or, before there is any, the first
    state), where runs without output have left something, and now. `changes`: from the first moment to now, `between`
    step by step, empty if there is one. `captured`: the settings that give the query its meaning. `fingerprint` and
    `functions` as in `analysis`.
    """

    document: Mapping[str, Any]
    query: Query
    captured: Mapping[str, str]
    settings: PlannerSettings
    policy: str
    head: Record | None
    positions: tuple[Mapping[int, Any], ...]
    changes: Mapping[int, SourceChange]
    between: tuple[Mapping[int, SourceChange], ...]
    fingerprint: str
    functions: Mapping[str, str]

    @property
    def old(self) -> Mapping[int, Any]:
        """Positions at the first moment."""
        return self.positions[0]

    @property
    def new(self) -> Mapping[int, Any]:
        """Positions now."""
        return self.positions[-1]

    @property
    def first(self) -> bool:
        """No run with output has been."""
        return self.head is None or not self.head.filled

    @property
    def prepared(self) -> bool:
        """No run with output has been, but runs without have left states."""
        return self.first and self.head is not None and bool(self.head.states)

    @property
    def changed(self) -> bool:
        return any(c.changed for c in self.changes.values())

    @property
    def time_dependent(self) -> Sequence[str]:
        """Expressions whose value the clock decides."""
        return tuple(self.document["findings"].get("time_dependent") or ())

    @property
    def source_bytes(self) -> float | None:
        """Bytes of all sources; None if one is unknown."""
        sizes = [c.bytes for n, c in self.changes.items() if self.query.sources[n].kind != "static"]
        return None if any(s is None for s in sizes) else sum(s for s in sizes if s is not None)

    @property
    def idle(self) -> bool:
        """Nothing to do: no source changed, nothing else moved."""
        return not (
            self.first
            or self.changed
            or self.time_dependent
            or self._unfollowed()
            or self._meaning_changed() is not None
        )

    def data_reason(self) -> str | None:
        """What in the data, or around it, forces a full run."""
        for number, change in sorted(self.changes.items()):
            if change.changed and change.reason is not None:
                return _with_source(change.reason, self.query.sources[number].name)
        if (meaning := self._meaning_changed()) is not None:
            return meaning
        if self.time_dependent:
            return f"TIME_DEPENDENT: {self.time_dependent[0]}"
        unfollowed = self._unfollowed()
        return f"NOT_INCREMENTAL: {unfollowed[0]} cannot tell its changes" if unfollowed else None

    def _meaning_changed(self) -> str | None:
        assert self.head is not None or self.first
        if self.head is None or (self.first and not self.prepared):
            return None
        for name, digest in self.functions.items():
            if self.head.functions.get(name) != digest:
                return f"FUNCTION_CHANGED: {name}"
        if self.head.fingerprint != self.fingerprint:
            return "SCHEMA_CHANGED: the query reads its sources in another way than at the last run"
        return None

    def _unfollowed(self) -> list[str]:
        """Sources that are not constant and cannot tell changes."""
        return [s.name for s in self.query.sources.values() if not tells_changes(s.entry)]

    def sources_at(self) -> tuple[SourceAt, ...]:
        """The positions of this run, for its record."""
        return tuple(
            SourceAt(s.name, s.id, s.kind, self.new[n])
            for n, s in sorted(self.query.sources.items())
            if _recorded(s.entry)
        )

    def arrived(self, schedule: Sequence[Point], number: int) -> Arrived:
        """What came since the positions at the first moment; `number`: of the run's point."""
        head = self.head
        since = None
        if head is not None:
            since = head.output_run if head.filled else min(head.moments, default=None)
        rows: dict[str, Rows | None] = {}
        for n, change in self.changes.items():
            source = self.query.sources[n]
            if source.kind != "static":
                rows[source.name] = _counted(change) if self.old.get(n) is not None else None
        return Arrived(place(schedule, number), number == len(schedule), since, rows if since is not None else {})

    def position_texts(self) -> dict[str, str]:
        """Positions as the column of SHOW REFRESHES shows them."""
        return _texts(self.query, dict(self.new))

    def old_position_texts(self) -> dict[str, str]:
        head = self.head
        return _texts(self.query, {n: head.position_of(s.name) for n, s in self.query.sources.items()}) if head else {}


def _counted(change: SourceChange) -> Rows | None:
    """Inserts and deletes; None where nobody counted them."""
    if not change.changed:
        return 0.0, 0.0
    return None if change.inserts is None or change.deletes is None else (change.inserts, change.deletes)


def _texts(query: Query, positions: Mapping[int, Any]) -> dict[str, str]:
    known = {s.name: positions.get(n) for n, s in query.sources.items()}
    return {name: describe_position(position) for name, position in known.items() if position is not None}


def _recorded(entry: Mapping[str, Any]) -> bool:
    return not entry.get("constant")


def _with_source(reason: str, name: str) -> str:
    code, _, text = reason.partition(":")
    return f"{code}: {name}: {text.strip()}" if text.strip() else f"{code}: {name}"


def _fields_read(tree: Tree) -> dict[int, frozenset[str]]:
    """The fields that a query reads, by number of source."""
    found: dict[int, frozenset[str]] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        pending += node.inputs
        if isinstance(node.op, Scan):
            found[node.op.source] = found.get(node.op.source, frozenset()) | {field for _, field in node.op.columns}
    return found


def _as_read(entry: Source, read: Collection[str]) -> Source:
    """A Delta table with only the columns that the query reads: what becomes of others does not concern the view."""
    if entry["kind"] != "delta":
        return entry
    return {**entry, "fields": [field for field in entry["fields"] if field[0] in read]}


def survey(
    jvm: Jvm,
    document: Mapping[str, Any],
    head: Record | None,
    policy: str,
    captured: Mapping[str, str],
    settings: PlannerSettings,
    at: Mapping[int, Any] | None = None,
) -> Situation:
    """Pins all sources of an analysed query and says what changed.  No Spark job runs.

    `captured`: as in `Definition.settings`. `at`: positions, by number of source, that were pinned before.
    """
    query = read_query(document)
    numbers = sorted(query.sources)
    read = _fields_read(query.root)
    entries = [_as_read(query.sources[n].entry, read.get(n, frozenset())) for n in numbers]
    since = [head.position_of(query.sources[n].name) if head is not None else None for n in numbers]
    pinned = pin(jvm, entries, since, [at.get(n) for n in numbers] if at is not None else None)
    names = [query.sources[n].name for n in numbers]
    count = len(head.stands_at) if head is not None else 1
    moments = [[head.position_of(name, i) for name in names] for i in range(count)] if head is not None else [since]
    moments.append([p.position for p in pinned])
    between: tuple[Mapping[int, SourceChange], ...] = ()
    if len(moments) > 2:
        steps = [pin(jvm, entries, earlier, later) for earlier, later in pairwise(moments)]
        between = tuple({n: p.change for n, p in zip(numbers, step, strict=True)} for step in steps)
    return Situation(
        document=document,
        query=query,
        captured=captured,
        settings=settings,
        policy=policy,
        head=head,
        positions=tuple(dict(zip(numbers, positions, strict=True)) for positions in moments),
        changes={n: p.change for n, p in zip(numbers, pinned, strict=True)},
        between=between,
        fingerprint=analysis.fingerprint(document),
        functions=analysis.functions(document),
    )


def _request(
    situation: Situation, full_reason: str | None, lost: Collection[str] = (), refill: str | None = None
) -> PlanRequest:
    """What the planner is told: the situation, without what is lost."""
    head = situation.head
    states = {n: s for n, s in head.states.items() if n not in lost} if head is not None else {}
    held = 0
    if head is not None and head.held_run is not None and HELD not in lost:
        held = head.moment_of(head.held_run)
    return PlanRequest(
        query=situation.query,
        policy=situation.policy,
        sources=situation.changes,
        states=frozenset(states),
        pieces={n: [p.counted() for p in s.pieces] for n, s in states.items() if s.pieces},
        stored=[StateSpec(n, s.form, s.columns, s.text, s.group, s.parts) for n, s in states.items() if s.run is None],
        first=situation.first,
        full_reason=full_reason,
        settings=situation.settings,
        lost=frozenset(lost) - {HELD},
        chosen=head.chosen if head is not None else None,
        refill=refill,
        between=situation.between,
        standing={n: head.moment_of(s.run) for n, s in states.items()} if head is not None else {},
        before={n: s.before for n, s in states.items() if s.before is not None},
        held=held,
        rows=None if head is None or head.rows is None else float(head.rows),
        held_rows=float(sum(p.rows for p in head.held)) if head is not None else 0.0,
        meaning="\n".join(f"{name}={value}" for name, value in sorted(situation.captured.items())),
    )


def early(situation: Situation, number: int, outlook: Outlook, lost: Collection[str] = ()) -> RunPlan:
    """The plan of a run without output: the early work that pays; without a step if none does.

    `number`: of the run's point in the schedule. What is expected to happen to the sources until each point to come, up
    to the next with output, `outlook` says. Where it does not: as much as since the last run that left something; to
    one that no run has read, what is assumed at a filling.
    """
    schedule = outlook.schedule
    foreseen = {n: outlook.ahead(s.name, number) for n, s in situation.query.sources.items()}
    step = situation.between[-1] if situation.between else situation.changes
    unread = situation.first and not situation.prepared
    ahead: list[Expected] = []
    due = next(i for i, p in enumerate(schedule[number:], number + 1) if p.output)
    for other, point in enumerate(schedule[number:due], number + 1):
        known = {n: rows[other - number - 1] for n, rows in foreseen.items()}
        step = {n: _expected(situation, n, change, known[n], unread=unread) for n, change in step.items()}
        unread = False
        ahead.append(Expected(point.cost, point.output, step, other))
    request = _request(situation, None, lost)
    own = schedule[number - 1].cost
    return plan_run(replace(request, price=own, point=number, ahead=planned_with(ahead)))


def _expected(
    situation: Situation, source: int, change: SourceChange, known: Rows | None, *, unread: bool
) -> SourceChange:
    """What happens next to a source after `change`: what is known of it, or the same again."""
    rows = change.rows or situation.query.sources[source].rows
    if known is not None and situation.query.sources[source].kind != "static":
        inserts, deletes = known
        some = inserts + deletes >= LEAST_ROWS
        change = replace(change, changed=some, old_readable=True, reason=None, inserts=inserts, deletes=deletes)
    elif unread:
        share = (rows or ASSUMED_ROWS) * ASSUMED_CHANGE
        changed = situation.query.sources[source].kind != "static"
        change = replace(change, changed=changed, old_readable=True, reason=None, inserts=share, deletes=0.0)
    if not change.changed or rows is None:
        return change
    return replace(change, rows=max(0.0, rows + (change.inserts or 0.0) - (change.deletes or 0.0)))


def plan(
    situation: Situation,
    full_reason: str | None,
    lost: Collection[str] = (),
    refill: str | None = None,
    point: tuple[int, float] = (1, 1.0),
) -> RunPlan:
    """The plan of a run with output; `full_reason` forces a full one.

    `lost`: states that cannot be read and are to be made anew. `refill`: why the content cannot be built upon. `point`:
    number and price, as EXPLAIN shows them.

    Raises TIDEMILL_NOT_INCREMENTAL under STRICT if the run would be full for a reason in the data, and under
    INCREMENTAL and STRICT if an operator has no rule.
    """
    request = _request(situation, full_reason, lost, refill)
    run = plan_run(replace(request, point=point[0], price=point[1]))
    code = (run.reason or "").split(":")[0]
    if situation.policy == "STRICT" and run.kind == "FULL" and code not in ALLOWED_UNDER_STRICT:
        raise TidemillError(
            "TIDEMILL_NOT_INCREMENTAL",
            {
                "operator": "the run",
                "reason": f"it would have to be full, which the policy STRICT forbids ({run.reason})",
            },
        )
    return run


def filling(
    jvm: Jvm, document: Mapping[str, Any], policy: str, captured: Mapping[str, str], settings: PlannerSettings
) -> tuple[Situation, RunPlan]:
    """The first run of a query: what it knows, and its plan, if the policy allows such a view.

    Raises TIDEMILL_SOURCE_WITHOUT_CHANGES or TIDEMILL_NOT_INCREMENTAL.
    """
    situation = survey(jvm, document, None, policy, captured, settings)
    found = plan(situation, "FIRST")
    check_policy(situation, found)
    return situation, found


def forced(situation: Situation, requested: bool) -> str | None:
    """The reason that forces a full run: FIRST, REQUESTED, POLICY, or one in the data; None if nothing does."""
    if situation.prepared and not requested and situation.policy != "FULL" and situation.data_reason() is None:
        return None
    if situation.first:
        return "FIRST"
    if requested:
        return "REQUESTED"
    if situation.policy == "FULL":
        return "POLICY"
    return situation.data_reason()


def steady(situation: Situation, states: frozenset[str]) -> Situation:
    """The situation right after a filling, with every source changed a little: what EXPLAIN and the checks of CREATE
    plan for.

    `states`: names of the states that the filling leaves.
    """
    changes = {}
    for number, change in situation.changes.items():
        constant = situation.query.sources[number].kind == "static"
        rows = change.rows or situation.query.sources[number].rows or ASSUMED_ROWS
        changes[number] = replace(
            change,
            changed=not constant,
            old_readable=True,
            reason=None,
            rows=rows,
            inserts=0.0 if constant else max(1.0, rows * ASSUMED_CHANGE),
            deletes=0.0 if constant else max(1.0, rows * ASSUMED_CHANGE / 2),
        )
    row = RunRow(run=0, view="", point=1, trigger="CREATE", kind="FULL")
    kept = {name: StoredState("", (), "", ()) for name in states}
    head = Record(0, row, 0, 0, (), kept, situation.sources_at(), situation.fingerprint, situation.functions)
    return replace(situation, head=head, changes=changes, between=(), positions=(situation.new, situation.new))


def check_policy(situation: Situation, filling: RunPlan) -> None:
    """At CREATE, under INCREMENTAL and STRICT: every source tells changes, and every operator has a rule.

    Raises TIDEMILL_SOURCE_WITHOUT_CHANGES or TIDEMILL_NOT_INCREMENTAL.
    """
    if situation.policy not in ("INCREMENTAL", "STRICT"):
        return
    for source in situation.query.sources.values():
        if not tells_changes(source.entry):
            raise TidemillError(
                "TIDEMILL_SOURCE_WITHOUT_CHANGES",
                {
                    "source": source.name,
                    "reason": str(source.entry.get("reason") or "its format does not tell changes"),
                },
            )
    if situation.time_dependent:
        raise TidemillError(
            "TIDEMILL_NOT_INCREMENTAL",
            {
                "operator": situation.time_dependent[0],
                "reason": "its value changes with time, so every run would be full",
            },
        )
    plan(steady(situation, frozenset(s.name for s in filling.states)), None)
