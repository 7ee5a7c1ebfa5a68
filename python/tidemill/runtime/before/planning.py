"""Gets the plans of runs with output, of runs without, and of initial loads; checks what a policy forbids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.cost.guesses import CHANGED_SHARE, FILE_ROW_BYTES, SOURCE_ROWS
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.runtime.before.situation import Situation, survey
from tidemill.runtime.view.arrivals import ArrivedRows, Outlook
from tidemill.runtime.view.definition import Terms
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.record import File, RunRecord, StoredState, sizes_of
from tidemill.search.contract.choice import LEAST_ROWS, Choice
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.past import NOTHING_PAST, Past
from tidemill.search.contract.request import PlanRequest, UpcomingPoint, planned_with
from tidemill.search.contract.run_kinds import GRADUAL
from tidemill.search.contract.run_plan import RunPlan, StateSpec
from tidemill.search.contract.stored import HELD, Layout, crowded
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.plan_cache import PlanCache
from tidemill.search.service.planner import plan_run
from tidemill.search.service.pool import SEARCH_POOL
from tidemill.search.service.requests import write_request
from tidemill.settings import PlannerSettings
from tidemill.sources.adapters import tells_changes

# Reasons by the user's own wish, or that no policy forbids. All others are reasons in the data: STRICT refuses them.
ALLOWED_UNDER_STRICT = ("FIRST", "REQUESTED", "POLICY")
PLANS = PlanCache()


def _request(
    situation: Situation, full_reason: str | None, lost: Collection[str] = (), refill: str | None = None
) -> PlanRequest:
    """Returns the request to the planner: the situation, without lost states."""
    head = situation.head
    states = {n: s for n, s in head.states.items() if n not in lost} if head is not None else {}
    held = 0
    if head is not None and head.held_run is not None and HELD not in lost:
        held = head.moment_of(head.held_run)
    sources, ended = situation.query.sources, head.cycles.ended if head is not None else ()
    cycle = situation.terms.expected(ended)
    return PlanRequest(
        query=situation.query,
        cycle={n: cycle[s.name] for n, s in sources.items() if s.name in cycle},
        cycles=tuple(c.numbered({n: s.name for n, s in sources.items()}) for c in ended),
        budget=situation.terms.budget,
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
        layout=_layout(situation),
        held_rows=float(sum(p.rows for p in head.held)) if head is not None else 0.0,
        meaning="\n".join(f"{name}={value}" for name, value in sorted(situation.terms.captured.items())),
    )


def _layout(situation: Situation) -> Layout | None:
    """Returns the files of the content; None if there are none, as before the initial load."""
    head = situation.head
    if head is None or not head.files:
        return None
    partitions: dict[tuple[str | None, ...], list[File]] = {}
    for file in head.files:
        partitions.setdefault(tuple(file.get("partition", ())), []).append(file)
    each = [sizes_of(files) for files in partitions.values()]
    merged = sum(sizes[i] for sizes, rows in each for i in crowded(sizes, rows))
    size = sum(sum(sizes) for sizes, _ in each)
    return Layout(len(head.files), float(size), head.keys, situation.terms.marks_rows, float(merged))


def _written(situation: Situation, request: PlanRequest) -> PlanRequest:
    """Writes the request to the debug folder if the session has one. Returns it as the planner gets it: without the
    folder, which must not decide whether an earlier plan is reused."""
    if folder := situation.settings.debug_requests:
        head = situation.head
        known = head is not None and head.row.view
        write_request(folder, f"{head.row.view}-run-{head.run + 1}" if head is not None and known else "query", request)
    return replace(request, settings=replace(request.settings, debug_requests=""))


def early(situation: Situation, number: int, outlook: Outlook, lost: Collection[str] = ()) -> RunPlan:
    """Returns the plan of a run without output at the point `number` of the schedule: the early work that pays.

    The plan has no steps if no early work pays.
    """
    return SEARCH_POOL.plan(_early_request(situation, number, outlook, lost))


def explained_early(situation: Situation, number: int, outlook: Outlook) -> ExplainedPlan:
    """As `early`, with an account of the search."""
    return plan_run(_early_request(situation, number, outlook))


def _early_request(situation: Situation, number: int, outlook: Outlook, lost: Collection[str] = ()) -> PlanRequest:
    """Returns the request to the planner for a run without output.

    `number`: of the run's point in the schedule. `outlook`: the expected arrivals until each upcoming point, up to the
    next with output. If it expects nothing of a source, the source is taken to change as much as since the last run
    that left something. A source that no run has read is taken to change as is assumed at the initial load.
    """
    schedule = outlook.schedule
    foreseen = {n: outlook.ahead(s.name, number) for n, s in situation.query.sources.items()}
    step = situation.between[-1] if situation.between else situation.changes
    unread = situation.first and not situation.prepared
    ahead: list[UpcomingPoint] = []
    due = next(i for i, p in enumerate(schedule[number:], number + 1) if p.output)
    for other, point in enumerate(schedule[number:due], number + 1):
        known = {n: rows[other - number - 1] for n, rows in foreseen.items()}
        step = {n: _expected(situation, n, change, known[n], unread=unread) for n, change in step.items()}
        unread = False
        ahead.append(UpcomingPoint(point.cost, point.output, step, other))
    request = _request(situation, None, lost)
    own = schedule[number - 1].cost
    planned = planned_with(ahead, last_first=situation.settings.last_first)
    return _written(situation, replace(request, price=own, point=number, ahead=planned))


def _expected(
    situation: Situation, source: int, change: SourceChange, known: ArrivedRows | None, *, unread: bool
) -> SourceChange:
    """Returns the expected change of a source after `change`: from the known arrivals, else the same again."""
    rows = change.rows or situation.query.sources[source].rows
    if known is not None and situation.query.sources[source].kind != "static":
        inserts, deletes = known
        some = inserts + deletes >= LEAST_ROWS
        change = replace(change, changed=some, old_readable=True, reason=None, inserts=inserts, deletes=deletes)
    elif unread:
        share = (rows or SOURCE_ROWS) * CHANGED_SHARE
        changed = situation.query.sources[source].kind != "static"
        change = replace(change, changed=changed, old_readable=True, reason=None, inserts=share, deletes=0.0)
    if not change.changed or rows is None:
        return change
    return replace(change, rows=max(0.0, rows + (change.inserts or 0.0) - (change.deletes or 0.0)))


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The conditions of a run with output.

    Attributes:
        full_reason: the reason that forces a full run; None: nothing does.
        lost: the states that cannot be read and must be made again.
        refill: the reason why the content must be made again; None: it can be built upon.
        point: number and price, as EXPLAIN shows them.
        past: estimated and measured costs of earlier runs.
        learned: by what factors earlier estimates were off.
        tells: a full run tells views above what it changes.
        crowded: as in `PlanRequest`.
    """

    full_reason: str | None
    lost: Collection[str] = ()
    refill: str | None = None
    point: tuple[int, float] = (1, 1.0)
    past: Past = NOTHING_PAST
    learned: Learned = NOTHING_LEARNED
    tells: bool = False
    crowded: bool = False

    def request(self, situation: Situation) -> PlanRequest:
        request = _request(situation, self.full_reason, self.lost, self.refill)
        number, price = self.point
        past = self.past if situation.settings.cost_model == "default" else NOTHING_PAST  # runs are known by their time
        told = replace(request, point=number, price=price, past=past, learned=self.learned, tells=self.tells)
        return _written(situation, replace(told, crowded=self.crowded))


def plan(situation: Situation, asked: PlanInputs) -> RunPlan:
    """Returns the plan of a run with output, by a new search.

    Raises TIDEMILL_NOT_INCREMENTAL under STRICT if the run would be full for a reason in the data, and under
    INCREMENTAL and STRICT if an operator has no rule.
    """
    run = SEARCH_POOL.plan(asked.request(situation))
    _check(situation, run)
    return run


def explained(situation: Situation, asked: PlanInputs) -> ExplainedPlan:
    """As `plan`, with an account of the search."""
    run = plan_run(asked.request(situation))
    _check(situation, run)
    return run


def plan_again(situation: Situation, asked: PlanInputs) -> RunPlan:
    """As `plan`, but returns the plan of an earlier run like this one if there was one."""
    run = PLANS.plan(asked.request(situation), SEARCH_POOL.plan)
    _check(situation, run)
    return run


def _check(situation: Situation, run: RunPlan) -> None:
    code = (run.reason or "").split(":")[0]
    if situation.policy == "STRICT" and run.kind == "FULL" and code not in ALLOWED_UNDER_STRICT:
        raise TidemillError(
            "TIDEMILL_NOT_INCREMENTAL",
            {
                "operator": "the run",
                "reason": f"it would have to be full, which the policy STRICT forbids ({run.reason})",
            },
        )


def initial_load(
    jvm: Jvm, document: Mapping[str, Any], terms: Terms, settings: PlannerSettings
) -> tuple[Situation, RunPlan]:
    """Returns the situation and the plan of a query's initial load, if the policy allows such a view.

    Raises TIDEMILL_SOURCE_WITHOUT_CHANGES or TIDEMILL_NOT_INCREMENTAL.
    """
    situation = survey(jvm, document, None, terms, settings)
    found = plan(situation, PlanInputs("FIRST"))
    check_policy(situation, found)
    return situation, found


def forced(situation: Situation, requested: bool) -> str | None:
    """Returns the reason that forces a full run: FIRST, REQUESTED, POLICY, or one in the data; None if nothing does."""
    if situation.prepared and not requested and situation.policy != "FULL" and situation.data_reason() is None:
        return None
    if situation.first:
        return "FIRST"
    if requested:
        return "REQUESTED"
    if situation.policy == "FULL":
        return "POLICY"
    return situation.data_reason()


def may_work_early(situation: Situation) -> bool:
    """Returns True if a run without output can do early work for the due run.

    It cannot if that must be full, or if nothing may be kept.
    """
    return situation.policy != "FULL" and situation.data_reason() is None and situation.terms.budget != 0


def steady(situation: Situation, states: frozenset[str], chosen: Choice | None = None) -> Situation:
    """Returns the situation right after an initial load, with a small change of every source. EXPLAIN and the checks of
    CREATE plan for it.

    `states`: names of the states that the initial load leaves; `chosen`: their choice, by default that of the last run.
    """
    changes = {}
    for number, change in situation.changes.items():
        constant = situation.query.sources[number].kind == "static"
        rows = _rows(situation, number) or SOURCE_ROWS
        changes[number] = replace(
            change,
            changed=not constant,
            old_readable=True,
            reason=None,
            rows=rows,
            inserts=0.0 if constant else max(1.0, rows * CHANGED_SHARE),
            deletes=0.0 if constant else max(1.0, rows * CHANGED_SHARE / 2),
        )
    row = RunRow(run=0, view="", point=1, trigger="CREATE", kind="FULL")
    known = situation.head.states if situation.head is not None else {}
    nothing = StoredState("", (), "", ())
    kept = {name: replace(known.get(name, nothing), run=None, before=None) for name in states}
    head = RunRecord(0, row, 0, 0, (), kept, situation.sources_at(), situation.fingerprint, situation.functions)
    if situation.head is not None:
        last = situation.head
        head = replace(head, rows=last.rows, files=last.files, keys=last.keys, cycles=last.cycles)
        chosen = chosen or last.chosen
    head = replace(head, chosen=chosen)
    return replace(situation, head=head, changes=changes, between=(), positions=(situation.new, situation.new))


def unsized(situation: Situation) -> list[str]:
    """Returns the names of the sources that may change and whose numbers of rows nobody knows."""
    sources = situation.query.sources.items()
    return [s.name for n, s in sources if s.kind not in ("static", "clock") and _rows(situation, n) is None]


def _rows(situation: Situation, source: int) -> float | None:
    """Returns the rows of a source: as counted, by its statistics, or from its bytes; None if all are unknown."""
    change, info = situation.changes[source], situation.query.sources[source]
    size = change.bytes or info.bytes
    return situation.counted.get(source) or change.rows or info.rows or (size / FILE_ROW_BYTES if size else None)


def check_policy(situation: Situation, loaded: RunPlan) -> None:
    """Checks at CREATE, under INCREMENTAL and STRICT, that every source tells changes and every operator has a rule.

    Raises TIDEMILL_SOURCE_WITHOUT_CHANGES or TIDEMILL_NOT_INCREMENTAL.
    """
    if situation.policy not in GRADUAL:
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
    plan(steady(situation, frozenset(s.name for s in loaded.states)), PlanInputs(None))
