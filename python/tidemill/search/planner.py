"""The plan of a run: full or incremental, its steps in order, the states it keeps, and why.

One time point is planned here. The pipeline, top to bottom: normal form; the space of the change; the cheapest plan
under the policy; against it the full plan; lowering, state by state and the result last.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill.errors import TidemillError
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.assembly import RECOMPUTE, Assembly
from tidemill.search.compaction import Piece, due
from tidemill.search.costing import CostModel
from tidemill.search.explanation import Alternative
from tidemill.search.extract import Extractor, reads_the_past
from tidemill.search.inspect import unable
from tidemill.search.lower import Lowerer
from tidemill.search.run_plan import RunPlan, StateSpec, read_by, states_read
from tidemill.search.seed import CORE, Candidate, advance, answered_from_sources
from tidemill.search.space import Space, normal_query, space
from tidemill.settings import PlannerSettings
from tidemill.tvr.form import DELTA

ASSUMED_SHARE = 0.01
"""Share of each source that is taken to change per run when states are chosen at the filling."""
ASSUMED_ROWS = 1e6
"""Rows that each source is taken to have at least when states are chosen: tables grow, states are chosen once."""
WORTH_A_FULL_RUN = 100.0
"""CPU milliseconds. Below the noise of a few jobs an estimate says nothing: the run stays incremental, which writes
less and leaves a delta for views above."""

DELTAS = "delta"
"""The pack that others may build upon."""
MOST_UNREAD = 32
"""Pieces that a state may have without a thought to merging them, as long as no run reads it."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a run is planned for.

    Attributes:
        states: names of the states that can be read at the old positions.
        first: nothing was filled yet.
        full_reason: why the run must be full (a reason of SHOW REFRESHES); None if it need not be.
        pieces: of each state, where they are known.
        stored: what the states are that can be read.
        lost: names of states that should be there and are not: made anew by the way.
        refill: why the earlier content cannot be built upon (a reason of SHOW REFRESHES); None if it can. The whole
            result is then made anew, from states that can be read, brought up to date, where that is cheapest.
    """

    query: Query
    policy: str
    sources: Mapping[int, SourceChange]
    states: frozenset[str]
    first: bool
    full_reason: str | None
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    pieces: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    stored: Sequence[StateSpec] = ()
    lost: frozenset[str] = frozenset()
    refill: str | None = None


def plan_run(request: PlanRequest) -> RunPlan:
    """Plan a run.

    Raises:
        TidemillError: TIDEMILL_NOT_INCREMENTAL under INCREMENTAL or STRICT, if an operator has no rule but `recompute`.
    """
    planning = _Planning(replace(request, query=normal_query(request.query)))
    if request.first or request.full_reason is not None:
        return planning.full(request.full_reason or "FIRST")
    if request.refill is not None:
        return planning.refill(request.refill)
    return planning.incremental()


class _Planning:
    """One call of `plan_run`."""

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.model: CostModel = _model(request.settings.cost_model)
        rules = load_rules(request.settings.rules_paths)
        self.rules: list[Rule] = [r for r in rules if r.pack in request.settings.packs]
        self.budget = Budget(seconds=request.settings.time_limit)

    def _space(
        self, sources: Mapping[int, SourceChange], states: frozenset[str] | None, *, result: bool = True
    ) -> Space:
        measured: dict[str, float] = {}
        stored = self.request.stored if states else ()
        if states is not None:
            measured = {name: float(sum(p.rows for p in pieces)) for name, pieces in self.request.pieces.items()}
        return space(
            self.request.query,
            sources,
            self.rules,
            self.model,
            self.budget,
            "",
            states,
            measured,
            result=result,
            stored=stored,
        )

    def _extractor(
        self, found: Space, prefer: str | None = None, *, past: bool = True, packs: frozenset[str] | None = None
    ) -> Extractor:
        root_delta = found.memo.change(found.root, DELTA)
        preferred = prefer or self.request.settings.prefer
        whole_allowed = preferred == RECOMPUTE and self.request.policy == "AUTO"

        barred = answered_from_sources(found.memo) if past else frozenset()

        def allowed(group: int, e: Expression) -> bool:
            if not past and reads_the_past(e.op):
                return False
            if (group, type(e.op)) in barred or (packs is not None and e.pack not in packs):
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
        if self.request.policy in {"INCREMENTAL", "STRICT"} and not self.request.lost:
            self._check_rules(found)
        plan = self._change(found, self._extractor(found))
        if plan is None:
            return self.full(self._why_not(found))
        if self.request.policy != "AUTO" or self.request.settings.prefer is not None:
            return plan
        if not _from_the_past(plan):
            plan = self._change(found, self._without_recompute(found))
            if plan is None:
                return self.full(self._why_not(found))
        full = self.full("COST")
        if full.estimated < plan.estimated - WORTH_A_FULL_RUN:
            return replace(full, explanation=replace(full.explanation, rivals=plan.explanation.rivals))
        return plan

    def _without_recompute(self, found: Space) -> Extractor:
        barred = answered_from_sources(found.memo)

        def allowed(group: int, e: Expression) -> bool:
            return e.pack != RECOMPUTE and (group, type(e.op)) not in barred

        return Extractor(found.memo, self.model, found.facts, allowed)

    def _check_rules(self, found: Space) -> None:
        """An operator lacks a rule if none but `recompute` computes its change even where every state is kept: which
        of them are is decided by cost. What a source has no longer is no operator's fault.
        """
        if self._computes(found):
            return
        every = self._space(self._as_if_kept(), None)
        if not self._computes(every):
            operator, _, reason = unable(every, self._without_recompute(every)).partition(": ")
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", {"operator": operator, "reason": reason})

    def _computes(self, found: Space) -> bool:
        """Whether rules other than `recompute` compute the view's change."""
        return self._without_recompute(found).best(found.memo.change(found.root, DELTA)) is not None

    def _as_if_kept(self) -> dict[int, SourceChange]:
        """The sources, each with its old content."""
        return {number: replace(source, old_readable=True) for number, source in self.request.sources.items()}

    def _why_not(self, found: Space) -> str:
        """The reason why nothing but recomputing computes the view's change."""
        gone = [n for n, source in self.request.sources.items() if source.changed and not source.old_readable]
        if gone and self._computes(self._space(self._as_if_kept(), self.request.states)):
            names = ", ".join(sorted({self.request.query.sources[n].name for n in gone}))
            return f"HISTORY_GONE: what {names} held at the last run cannot be read any more"
        return "NOT_INCREMENTAL: " + unable(found, self._without_recompute(found))

    def _change(self, found: Space, extractor: Extractor) -> RunPlan | None:
        """The plan of the view's change; None if nothing computes it."""
        run = self._assembly(found, extractor)
        for candidate in found.candidates:
            if candidate.name in self.request.lost:
                run.base(candidate)
        change = found.memo.change(found.root, DELTA)
        if found.memo.changed(found.root) and extractor.best(change) is None:
            return None
        # A state that cannot follow this change is dropped, and the next full run makes it anew.
        followed = [c for c in found.candidates if c.name in self.request.states and run.advance(c)]
        run.delta(change)
        self._compact(run, followed)
        lost = f"STATE_LOST: {', '.join(sorted(self.request.lost))}" if self.request.lost else None
        return run.plan("INCREMENTAL", lost, lambda: self._alternatives(found))

    def _compact(self, run: Assembly, followed: Sequence[Candidate]) -> None:
        """Puts together the pieces of states that the run reads, where that pays for runs like it; of others, so that
        their files do not become too many."""
        read = states_read(run.steps)
        # Equal parts of a query share one state.
        for candidate in {c.name: c for c in followed}.values():
            pieces = self.request.pieces.get(candidate.name, ())
            compaction = due(pieces, self.model) if candidate.name in read or len(pieces) > MOST_UNREAD else None
            if compaction is not None:
                run.compact(candidate, compaction)

    def _assembly(self, found: Space, extractor: Extractor) -> Assembly:
        return Assembly(self.request.query, self.model, found, extractor)

    # -- full ---------------------------------------------------------------------------------------------------------

    def full(self, reason: str) -> RunPlan:
        """Everything from the sources: the states worth keeping first, then the result over them."""
        unchanged = {n: replace(s, changed=False) for n, s in self.request.sources.items()}
        found = self._space(unchanged, frozenset())
        run = self._assembly(found, self._extractor(found, past=False))
        kept = frozenset() if self.request.policy == "FULL" else self._worth_keeping()
        for candidate in found.candidates:
            if candidate.name in kept:
                run.base(candidate)
        run.result()
        return run.plan("FULL", reason, lambda: [Alternative(RECOMPUTE, (RECOMPUTE,), run.cost)])

    def refill(self, reason: str) -> RunPlan:
        """The whole result anew: states that can be read are brought up to date, others worth keeping are made."""
        found = self._space(self.request.sources, self.request.states, result=False)
        run = self._assembly(found, self._extractor(found))
        kept = frozenset() if self.request.policy == "FULL" else self._worth_keeping()
        followed: list[Candidate] = []
        for candidate in found.candidates:
            if candidate.name not in kept:
                continue
            if candidate.name in self.request.states and run.advance(candidate):
                followed.append(candidate)
            else:
                run.base(candidate)
        run.result()
        self._compact(run, followed)
        kind = "INCREMENTAL" if read_by(run.steps) & {"changes", "state"} else "FULL"
        return run.plan(kind, reason, tuple)

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
                    if found.memo.changed(candidate.tvr):
                        pending.append(advance(found.memo, candidate))
        return frozenset(kept)

    def _alternatives(self, found: Space) -> list[Alternative]:
        """The best plan of each pack, with `delta` or `recompute` underneath; of `recompute`, all from the sources."""

        def best(pack: str) -> RunPlan | None:
            if pack == RECOMPUTE:
                return self.full("COST")
            return self._change(found, self._extractor(found, pack, packs=frozenset({CORE, pack, DELTAS, RECOMPUTE})))

        plans = {pack: best(pack) for pack in dict.fromkeys(rule.pack for rule in self.rules)}
        return [Alternative(pack, plan.methods, plan.estimated) for pack, plan in plans.items() if plan is not None]


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
    return bool(read_by(plan.steps) & past)
