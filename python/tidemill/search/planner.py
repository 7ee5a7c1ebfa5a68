"""The plan of a run: full or incremental, its steps in order, the states it keeps, and why.

One time point is planned here. The pipeline, top to bottom: normal form; the space of the change; the cheapest plan
under the policy; against it the full plan; lowering, state by state and the result last.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from tidemill.errors import TidemillError
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Filter, Join, KeyFilter, Negate, Pad, Project, Scan, Sum, Union, Unsign
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.costing import CostModel
from tidemill.search.explain import document, text
from tidemill.search.extract import Extractor, reads_the_past
from tidemill.search.inspect import is_net, unable, view_keys
from tidemill.search.join_order import BROADCAST_ROWS
from tidemill.search.lower import COUNT_FIELD, Lowerer, NotComputableError
from tidemill.search.lowered import Lowered, Staged
from tidemill.search.seed import CORE, Candidate, advance, answered_from_sources, base
from tidemill.search.space import Space, normal_query, space
from tidemill.search.wire import Wire
from tidemill.settings import PlannerSettings
from tidemill.tvr.form import DELTA, SNAPSHOT

RECOMPUTE = "recompute"
ASSUMED_SHARE = 0.01
"""Share of each source that is taken to change per run when states are chosen at the filling."""
ASSUMED_ROWS = 1e6
"""Rows that each source is taken to have at least when states are chosen: tables grow, states are chosen once."""
WORTH_A_FULL_RUN = 100.0
"""CPU milliseconds. Below the noise of a few jobs an estimate says nothing: the run stays incremental, which writes
less and leaves a delta for views above."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a run is planned for.

    Attributes:
        states: names of the states that can be read at the old positions.
        first: nothing was filled yet.
        full_reason: why the run must be full (a reason of SHOW REFRESHES); None if it need not be.
        state_rows: rows written to each state so far, where that is known.
    """

    query: Query
    policy: str
    sources: Mapping[int, SourceChange]
    states: frozenset[str]
    first: bool
    full_reason: str | None
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    state_rows: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to execute and write: a state's base or segment, the signed delta, or the whole result.

    `rows`: how many its largest shuffle is estimated to take.
    """

    name: str
    target: str
    state: str | None
    mode: str | None
    plan: Wire
    columns: tuple[tuple[int, str], ...]
    rows: float


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A state kept after the run; columns as (field, type)."""

    name: str
    form: str
    columns: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run, ready to be bound to positions. `estimated` in CPU milliseconds; `explain` as sql.md's JSON document."""

    kind: str
    reason: str | None
    steps: tuple[Step, ...]
    methods: tuple[str, ...]
    estimated: float
    keys: tuple[str, ...] | None
    states: tuple[StateSpec, ...]
    explain: Mapping[str, Any]
    text: str


def plan_run(request: PlanRequest) -> RunPlan:
    """Plan a run.

    Raises:
        TidemillError: TIDEMILL_NOT_INCREMENTAL under INCREMENTAL or STRICT, if an operator has no rule but `recompute`.
    """
    planning = _Planning(replace(request, query=normal_query(request.query)))
    if request.first or request.full_reason is not None:
        return planning.full(request.full_reason or "FIRST")
    return planning.incremental()


class _Planning:
    """One call of `plan_run`."""

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.model: CostModel = _model(request.settings.cost_model)
        rules = load_rules(request.settings.rules_paths)
        self.rules: list[Rule] = [r for r in rules if r.pack in request.settings.packs]
        self.budget = Budget(seconds=request.settings.time_limit)

    def _space(self, sources: Mapping[int, SourceChange], states: frozenset[str] | None) -> Space:
        measured = self.request.state_rows if states is not None else {}
        return space(self.request.query, sources, self.rules, self.model, self.budget, "", states, measured)

    def _extractor(self, found: Space, prefer: str | None = None, *, past: bool = True) -> Extractor:
        root_delta = found.memo.change(found.root, DELTA)
        preferred = prefer or self.request.settings.prefer
        whole_allowed = preferred == RECOMPUTE and self.request.policy == "AUTO"

        barred = answered_from_sources(found.memo) if past else frozenset()

        def allowed(group: int, e: Expression) -> bool:
            if not past and reads_the_past(e.op):
                return False
            if (group, type(e.op)) in barred:
                return False
            whole = e.pack == RECOMPUTE and group == found.memo.find(root_delta)
            return whole_allowed or not whole

        return Extractor(found.memo, self.model, found.facts, allowed, preferred)

    # -- incremental --------------------------------------------------------------------------------------------------

    def incremental(self) -> RunPlan:
        """The cheapest plan from the change, unless the policy allows a full one that is cheaper.

        The difference of two full computations of the whole view is no incremental plan; where the cheapest plan comes
        to that in other words, the cheapest without `recompute` stands for the incremental side.
        """
        found = self._space(self.request.sources, self.request.states)
        if self.request.policy in {"INCREMENTAL", "STRICT"}:
            self._check_rules(found)
        extractor = self._extractor(found)
        change = found.memo.change(found.root, DELTA)
        if extractor.best(change) is None:
            return self.full("NOT_INCREMENTAL: " + unable(found, self._without_recompute(found)))
        plan = self._assemble_change(found, extractor, change)
        if self.request.policy != "AUTO" or self.request.settings.prefer is not None:
            return plan
        if not _from_the_past(plan):
            without = self._without_recompute(found)
            if without.best(change) is None:
                return self.full("NOT_INCREMENTAL: " + unable(found, without))
            plan = self._assemble_change(found, without, change)
        full = self.full("COST")
        return full if full.estimated < plan.estimated - WORTH_A_FULL_RUN else plan

    def _without_recompute(self, found: Space) -> Extractor:
        barred = answered_from_sources(found.memo)

        def allowed(group: int, e: Expression) -> bool:
            return e.pack != RECOMPUTE and (group, type(e.op)) not in barred

        return Extractor(found.memo, self.model, found.facts, allowed)

    def _check_rules(self, found: Space) -> None:
        without = self._without_recompute(found)
        if without.best(found.memo.change(found.root, DELTA)) is None:
            operator, _, reason = unable(found, without).partition(": ")
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", {"operator": operator, "reason": reason})

    def _assemble_change(self, found: Space, extractor: Extractor, change: int) -> RunPlan:
        steps: list[Step] = []
        used: list[tuple[int, Expression]] = []
        staged: dict[int, Staged] = {}
        specs: list[StateSpec] = []
        saves: dict[int, str] = {}
        cost = 0.0
        for candidate in found.candidates:
            if candidate.name not in self.request.states:
                continue
            if found.memo.tvrs[candidate.tvr].props.changed:
                group = advance(found.memo, candidate)
                try:
                    lowered, rows = self._lower(found, extractor, staged, used, group, net=candidate.partial is None)
                except NotComputableError:
                    continue  # it cannot follow this change: dropped, and the next full run makes it anew
                cost += extractor.cost(group)
                steps.append(_state_step(candidate, "segment", lowered, rows))
                staged[found.memo.find(group)] = _staged(steps[-1], candidate, lowered)
                saves[found.memo.find(group)] = candidate.name
                extractor.stage(group)
            specs.append(_spec(candidate, found))
        cost += extractor.cost(change)
        lowered, rows = self._lower(found, extractor, staged, used, change, net=True)
        output = tuple(self.request.query.output)
        assert lowered.count is not None
        columns = (*output, (lowered.count, COUNT_FIELD))
        steps.append(Step("delta", "delta", None, None, lowered.node, columns, rows))
        return self._plan("INCREMENTAL", None, steps, used, cost, specs, found, extractor, saves)

    def _lower(
        self,
        found: Space,
        extractor: Extractor,
        staged: Mapping[int, Staged],
        used: list[tuple[int, Expression]],
        group: int,
        *,
        net: bool,
    ) -> tuple[Lowered, float]:
        """A group's plan, and how many rows its largest shuffle takes."""
        lowerer = Lowerer(found.memo, extractor, staged, found.base_rows)
        lowered = lowerer.group(group)
        if net and not is_net(found, extractor, group):
            lowered = lowerer.net(lowered)
        used.extend(u for u in lowerer.used if u not in used)
        return lowered, max((_shuffled(extractor, e) for _, e in lowerer.used), default=0.0)

    # -- full ---------------------------------------------------------------------------------------------------------

    def full(self, reason: str) -> RunPlan:
        """Everything from the sources: the states worth keeping first, then the result over them."""
        unchanged = {n: replace(s, changed=False) for n, s in self.request.sources.items()}
        found = self._space(unchanged, frozenset())
        extractor = self._extractor(found, past=False)
        kept = frozenset() if self.request.policy == "FULL" else self._worth_keeping()
        steps: list[Step] = []
        used: list[tuple[int, Expression]] = []
        staged: dict[int, Staged] = {}
        specs: list[StateSpec] = []
        saves: dict[int, str] = {}
        cost = 0.0
        for candidate in found.candidates:
            if candidate.name not in kept:
                continue
            group = base(found.memo, candidate)
            cost += extractor.cost(group)
            lowered, rows = self._lower(found, extractor, staged, used, group, net=False)
            if candidate.partial is None:
                lowered = Lowerer(found.memo, extractor, staged, found.base_rows).signed(lowered)
            steps.append(_state_step(candidate, "base", lowered, rows))
            if candidate.partial is not None:
                staged[found.memo.find(group)] = _staged(steps[-1], candidate, lowered)
                saves[found.memo.find(group)] = candidate.name
                extractor.stage(group)
            specs.append(_spec(candidate, found))
        group = found.memo.moment(found.root, SNAPSHOT, old=False)
        if extractor.cost(group) == inf:
            raise NotComputableError(unable(found, extractor))
        cost += extractor.cost(group)
        lowered, rows = self._lower(found, extractor, staged, used, group, net=False)
        steps.append(Step("result", "result", None, None, lowered.node, tuple(self.request.query.output), rows))
        return self._plan("FULL", reason, steps, used, cost, specs, found, extractor, saves)

    def _worth_keeping(self) -> frozenset[str]:
        """Names of the states that the cheapest incremental plan of a small change reads, and those they need."""
        assumed = {n: _assumed(s, self.request.query.sources[n].kind) for n, s in self.request.sources.items()}
        found = self._space(assumed, None)
        extractor = self._extractor(found)
        kept: set[str] = set()
        pending = [found.memo.change(found.root, DELTA)]
        while pending:
            group = pending.pop()
            if extractor.best(group) is None:
                continue
            lowerer = Lowerer(found.memo, extractor, {}, found.base_rows)
            lowerer.group(group)
            read = {getattr(e.op, "name", "") for _, e in lowerer.used}
            for candidate in found.candidates:
                if candidate.name in read - kept:
                    kept.add(candidate.name)
                    if found.memo.tvrs[candidate.tvr].props.changed:
                        pending.append(advance(found.memo, candidate))
        return frozenset(kept)

    # -- the plan -----------------------------------------------------------------------------------------------------

    def _plan(
        self,
        kind: str,
        reason: str | None,
        steps: list[Step],
        used: list[tuple[int, Expression]],
        cost: float,
        specs: list[StateSpec],
        found: Space,
        extractor: Extractor,
        saves: Mapping[int, str],
    ) -> RunPlan:
        packs = {e.pack for _, e in used} - {CORE}
        methods = (RECOMPUTE,) if kind == "FULL" else tuple(sorted(packs))
        explained = document(
            found, extractor, used, saves, methods, specs, cost, kind, reason, self._alternatives(kind, found)
        )
        return RunPlan(
            kind=kind,
            reason=reason,
            steps=tuple(steps),
            methods=methods,
            estimated=cost,
            keys=view_keys(self.request.query, found),
            states=tuple(specs),
            explain=explained,
            text=text(found, explained),
        )

    def _alternatives(self, kind: str, found: Space) -> list[tuple[tuple[str, ...], float]]:
        """The best plan of each pack with what it needs underneath; for a full run, that run alone."""
        if kind == "FULL":
            return []
        change = found.memo.change(found.root, DELTA)
        result: list[tuple[tuple[str, ...], float]] = []
        for pack in sorted({r.pack for r in self.rules}):
            cost = self._extractor(found, pack).cost(change)
            if cost < inf:
                result.append(((pack,), cost % 1e12))
        return result


def _model(name: str) -> CostModel:
    if importlib.util.find_spec(f"tidemill.cost_model.{name}") is None:
        raise TidemillError("TIDEMILL_NOT_YET", {"clause": f"spark.tidemill.cost.model={name}", "detail": ""})
    module = importlib.import_module(f"tidemill.cost_model.{name}")
    model: CostModel = module.MODEL
    return model


def _assumed(source: SourceChange, kind: str) -> SourceChange:
    rows = max(source.rows or ASSUMED_ROWS, ASSUMED_ROWS)
    share = rows * ASSUMED_SHARE
    changed = kind != "static"
    return replace(source, changed=changed, old_readable=True, reason=None, rows=rows, inserts=share, deletes=share)


def _from_the_past(plan: RunPlan) -> bool:
    """True if a plan's content comes from changes, states or the last answer, not from whole sources alone."""
    past = {"changes", "state"} if RECOMPUTE in plan.methods else {"changes", "state", "result"}

    def reads(node: Wire) -> bool:
        return node["op"] in past or any(reads(i) for i in node.get("inputs", ()))

    return any(reads(s.plan) for s in plan.steps)


def _shuffled(extractor: Extractor, e: Expression) -> float:
    """Rows that Spark may have to shuffle for an expression; a small side of a join is broadcast instead."""
    if not e.inputs or isinstance(e.op, Scan | Filter | Project | Union | Sum | Negate | Pad | Unsign):
        return 0.0
    rows = [extractor.rows(i) for i in e.inputs]
    if isinstance(e.op, Join | KeyFilter) and min(rows) <= BROADCAST_ROWS:
        return 0.0
    return float(sum(rows))


def _state_step(candidate: Candidate, mode: str, lowered: Lowered, rows: float) -> Step:
    columns = [(c, f) for c, f, _ in candidate.scan.columns]
    if lowered.count is not None:
        columns.append((lowered.count, COUNT_FIELD))
    return Step(f"{mode} of {candidate.name}", "state", candidate.name, mode, lowered.node, tuple(columns), rows)


def _staged(step: Step, candidate: Candidate, lowered: Lowered) -> Staged:
    return Staged(step.name, tuple((c, f) for c, f, _ in candidate.scan.columns), lowered.count is not None)


def _spec(candidate: Candidate, found: Space) -> StateSpec:
    fields = [(f, t) for _, f, t in candidate.scan.columns]
    if candidate.partial is None:
        fields.append((COUNT_FIELD, "long"))
    op, _ = found.memo.tvrs[candidate.tvr].expressions[0]
    return StateSpec(candidate.name, candidate.kind.name, tuple(fields), type(op).__name__.lower())
