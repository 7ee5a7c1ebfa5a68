"""Maintains a view over Python tables, run after run, with the planner's own plans, and checks every promise.

After each run: the view holds what its query gives; the delta is net and retracts nothing that is not there; every
state, merged, is what computing it anew gives; the keys that the plan promises are keys.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from math import isfinite
from unittest import mock

from tests.model.mode import Mode, Shaken
from tests.model.moments import Changes, Moments, Tables
from tests.model.records import merged, records_of
from tests.model.scalars import Row
from tests.model.semantics import Record, Relation, World, run
from tidemill.cost.costing import CpuMs
from tidemill.explain import explained
from tidemill.memo.check import check
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Scan
from tidemill.plan.query import COUNT_FIELD, Query
from tidemill.plan.tree import Tree, columns_of
from tidemill.rule.engine import explore
from tidemill.rule.registry import load_rules
from tidemill.search.choose.extract import Extractor
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.past import Past, PastRun
from tidemill.search.contract.request import KnownRows, PlanRequest, UpcomingPoint
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.contract.stored import Piece
from tidemill.search.keep import compaction
from tidemill.search.keep.compaction import Compaction
from tidemill.search.runs import early, task
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.runs.task import PlanningTask
from tidemill.search.service.plan_cache import PlanCache
from tidemill.search.service.planner import plan_run
from tidemill.search.space.cuts import push_cuts
from tidemill.search.space.orders import ORDERED
from tidemill.search.space.space import Kept, normal_query
from tidemill.settings import PACKS, PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, SNAPSHOT, Form

STORED_ROWS = 200_000
"""Rows that every piece of a state claims to have."""
PIECE_BYTES = 10 * STORED_ROWS
ARRIVALS = ((0.0, 0.0), (50.0, 0.0), (5e4, 5e4), (5e6, 5e6))
BUDGETS = (None, 0, PIECE_BYTES, 4 * PIECE_BYTES, 40 * PIECE_BYTES)


@dataclass
class View:
    """A view over tables, filled at once."""

    text: str
    start: Tables
    """What its sources hold when it is made."""
    mode: Mode = field(default_factory=Mode)
    valid: Callable[[Sequence[Row], View], None] | None = None
    """The check of a query that is free in its answers; None: the view must equal its query."""
    seed: int = 0
    deferred: bool = False
    """It is not filled at once."""

    def __post_init__(self) -> None:
        self.plans = PlanCache()
        self.query: Query = parse_query(self.text)
        self.dice = random.Random(self.seed)
        self.moments = Moments(self.start)
        self.before: dict[str, int] = {}
        self.held: list[Record] = []
        self.states: dict[str, list[list[Record]]] = {}
        self.result: list[Record] = []
        self.kinds: list[str] = []
        self.counted: float | None = None
        """The signed rows that arrived at operators in the last run; None if its cost model does not count them."""
        self.past: list[PastRun] = []
        self.first = True
        self.chosen: Choice | None = None
        self.cycle: dict[int, tuple[float, float]] = {}
        self.budget: int | None = None
        self.lost: frozenset[str] = frozenset()
        self.refill: str | None = None
        request = self._request(first=True)
        planning = PlanningTask(replace(request, query=normal_query(request.query)))
        possible = planning.space(request.steps, Kept(None)).candidates
        self._fields = {c.name: [field for _, field, kind in c.scan.columns if kind in ORDERED] for c in possible}
        self._keys_of = {c.name: None if c.partial is None else len(c.partial.keys) for c in possible}
        additive = "aggregate_parts" not in self.mode.off
        self._possible = frozenset(n for n, keys in self._keys_of.items() if additive or keys is None)
        if not self.deferred:
            self._execute(self._plan(first=True))

    def early(
        self,
        changes: Changes,
        *,
        price: float = 0.1,
        ahead: Sequence[float] = (),
        expected: Changes | None = None,
        still: Sequence[frozenset[int]] = (frozenset(),),
    ) -> ExplainedPlan:
        """Apply changes to the tables, and run without output.

        `price`: of a unit of this run's work, against 1 of the next run with output; `ahead`: of other runs without
        output before it. `expected`: what changes until the next point, as much as so far unless given. `still`: the
        sources that are expected not to change until each of the runs to come; the last counts for all others.
        """
        self.moments.change(changes)
        steps = [self._expected(still[min(i, len(still) - 1)]) for i in range(len(ahead) + 1)]
        if expected is not None:
            steps = [self._sources([expected])]
        points = [UpcomingPoint(p, output=False, changes=step) for p, step in zip(ahead, steps, strict=False)]
        due = UpcomingPoint(1.0, output=True, changes=steps[-1])
        plan = self._plan(first=self.first, price=price, ahead=(*points, due), expected=expected)
        assert plan.kind == "PARTIAL"
        self._execute(plan)
        return plan

    def refresh(self, changes: Changes) -> ExplainedPlan:
        """Apply changes to the tables, and run."""
        self.moments.change(changes)
        self.lost = frozenset(n for n in sorted(self.states) if self.dice.random() < self.mode.lose)
        self.refill = "STATE_LOST" if self.dice.random() < self.mode.lose else None
        self.states = {n: records for n, records in self.states.items() if n not in self.lost}
        if self.refill is not None:
            self.result = [{"gone": "gone"}]  # whoever reads it fails
        plan = self._plan(first=self.first)
        self._execute(plan)
        return plan

    def oracle(self) -> Relation:
        """The query as written, over the tables as they are now."""
        return run(self.query.document["root"], self._world())

    def rows(self) -> list[Row]:
        """The view's content, columns in the order of the query."""
        return [tuple(r[n] for _, n in self.query.output) for r in self.result]

    # -- planning -----------------------------------------------------------------------------------------------------

    def _sources(self, feeds: Sequence[Changes] | None = None) -> dict[int, SourceChange]:
        return self.moments.sources(feeds, readable=self.mode.readable, telling=self.mode.telling)

    def _measured(self, expected: Changes) -> KnownRows:
        line = [*self.moments.line, self.moments.after(expected)]

        @cache
        def bag(tree: Tree, moment: int) -> Counter[Row]:
            columns = columns_of(tree)
            query = replace(self.query, root=tree, output=tuple((c, f"c{c}") for c in columns))
            plan = plan_run(PlanRequest(query, "FULL", self._sources([]), frozenset(), first=True, full_reason=None))
            tables = {(n, 1): rows for n, rows in line[moment].items()}
            world = World(query, tables)
            for step in plan.steps[:-1]:
                world.staged[step.name] = records_of(step, run(step.plan, world))
            return Counter(run(plan.steps[-1].plan, world).rows)

        def measured(tree: Tree, form: Form) -> float | None:
            if form.kind not in {SNAPSHOT, DELTA} or not _columns_in(tree) <= self.query.columns.keys():
                return None  # of what rules derive, only what has columns of the query is a query
            rows = bag(tree, form.end).copy()
            if form.start is not None:
                rows.subtract(bag(tree, form.start))
            return float(sum(map(abs, rows.values())))

        return measured

    def _expected(self, still: frozenset[int]) -> dict[int, SourceChange]:
        """The next step: what has happened so far happens again, but to those that stand still."""
        return {
            n: replace(s, changed=False, reason=None, inserts=0.0, deletes=0.0) if n in still else s
            for n, s in self._sources().items()
        }

    def _request(
        self, *, first: bool, price: float = 1.0, ahead: tuple[UpcomingPoint, ...] = (), expected: Changes | None = None
    ) -> PlanRequest:
        sources, feeds = self._sources(), self.moments.feeds
        packs = frozenset(PACKS)
        if not first and self.dice.random() < self.mode.fewer:
            packs = frozenset(pack for pack in PACKS if self.dice.random() < 0.5)
        settings = PlannerSettings(packs=packs, prefer=self.mode.prefer, cost_model=self.mode.model, time_limit=60)
        states = frozenset(self.states)
        piece = Piece(1, STORED_ROWS, STORED_ROWS, 1, bytes=PIECE_BYTES)
        if self.mode.wavers and self.dice.random() < self.mode.wavers:
            self.cycle = {n: self.dice.choice(ARRIVALS) for n in sources if self.dice.random() < 0.7}
            self.budget = self.dice.choice(BUDGETS)
        based = {n: replace(piece, order=self._order(n)) for n in self.states}
        anew = not first and not ahead and self.dice.random() < self.mode.anew
        return PlanRequest(
            query=self.query,
            policy=self.mode.policy,
            sources=sources,
            states=states,
            first=first,
            full_reason="POLICY" if self.mode.policy == "FULL" and not (first or ahead) else None,
            settings=settings,
            lost=self.lost,
            chosen=Choice() if anew else self.chosen,
            cycle=self.cycle,
            budget=self.budget,
            refill=self.refill,
            pieces={n: [based[n], *[piece] * (len(kept) - 1)] for n, kept in self.states.items()},
            between=tuple(self._sources([feed]) for feed in feeds) if len(feeds) > 1 else (),
            standing={n: t for n, t in self.moments.standing.items() if n in states},
            held=self.moments.held_until if self.refill is None else 0,
            price=price,
            ahead=ahead,
            past=Past(self.past if self.mode.timed else ()),
            tells=not first and self.refill is None and self.dice.random() < self.mode.tells,
            measured=self._measured(expected or {}) if self.mode.known else lambda _tree, _form: None,
        )

    def _order(self, name: str) -> str | None:
        """Keys come first among a state's fields."""
        return next(iter(self._fields.get(name, ())), None) if self.mode.ordered else None

    def _plan(
        self,
        *,
        first: bool,
        keep: float | None = None,
        price: float = 1.0,
        ahead: tuple[UpcomingPoint, ...] = (),
        expected: Changes | None = None,
    ) -> ExplainedPlan:
        rules = tuple(r for r in load_rules() if r.name not in self.mode.off)
        share = self.mode.keep if keep is None else keep
        with ExitStack() as stack:
            patch = stack.enter_context
            patch(mock.patch.object(task, "load_rules", return_value=rules))
            patch(mock.patch("tidemill.search.space.space.explore", partial(explore, checked=check)))
            patch(mock.patch("tidemill.search.space.space.push_cuts", _checked_cuts))
            if self.mode.shake is not None:
                patch(mock.patch.object(task, "cost_model", return_value=Shaken(seed=self.mode.shake)))
            patch(mock.patch.object(compaction, "due", self._due))
            if self.mode.early is not None:
                patch(mock.patch.object(early, "worth_saving", self._worth_saving))
            if share is not None:
                dice = random.Random(self.seed)
                some = frozenset(n for n in sorted(self._possible) if dice.random() < share)
                patch(mock.patch.object(PlanningTask, "worth_keeping", return_value=some))
                patch(mock.patch.object(PlanningTask, "unread", return_value=frozenset()))
            request = self._request(first=first, price=price, ahead=ahead, expected=expected)
            found = plan_run(request)
            if first:
                return found
            # What an earlier run like this one had must do as well.
            before = self.plans.plan(request, lambda _: found)
            return replace(found, **{f.name: getattr(before, f.name) for f in fields(RunPlan)})

    def _worth_saving(self, extractor: Extractor, _: object, savable: Collection[int]) -> list[int]:
        assert self.mode.early is not None
        possible = [g for g in sorted(savable) if extractor.best(g) is not None]
        return [g for g in possible if self.dice.random() < self.mode.early]

    def _due(self, pieces: Sequence[Piece], *_: object) -> Compaction | None:
        if self.dice.random() >= self.mode.compact:
            return None
        return Compaction(self.dice.randrange(len(pieces)), 1, CpuMs(0.0))

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        """What the sources hold now."""
        return self.moments.tables

    def _world(self) -> World:
        sources = self.moments.snapshots(readable=self.mode.readable, clock=self.query.clock)
        told = self.moments.told(self.mode.telling)
        return World(self.query, sources, told, self.states, self.before, self.held, result=self.result, dice=self.dice)

    def _execute(self, plan: ExplainedPlan) -> None:
        changed, now = self.moments.changed, len(self.moments.feeds)
        world = self._world()
        states: dict[str, list[list[Record]]] = dict(self.states)
        result = self.result
        for step in plan.steps:
            if step.mode == "compact":
                world.states = {**world.states, str(step.state): states[str(step.state)]}
            records = records_of(step, run(step.plan, world))
            world.staged[step.name] = records
            if step.target == "state":
                assert step.state is not None
                before = states.get(step.state, []) if step.mode == "segment" else []
                if step.mode == "compact":
                    before = states[step.state][: step.first]
                    whole = merged(records, self._keys_of[step.state])
                    assert step.first > 0 or len(whole) == len(records), "a new base holds a key twice, or no row"
                states[step.state] = [*before, records]
                if step.mode == "compact":
                    world.states = {**world.states, step.state: states[step.state]}
            elif step.target == "delta":
                result = self._applied(records)
            elif step.target == "held":
                self.held = [*(self.held if step.mode == "segment" else ()), *records]
                self.moments.held_until = now
            else:
                result = records
        if plan.arrivals is not None:
            rows = [record for name in plan.arrivals for record in world.staged[name]]
            self.counted = float(sum(abs(record.get(COUNT_FIELD, 1)) for record in rows))
        known = dict(self.states)
        self.states = {s.name: states[s.name] for s in plan.states}
        if plan.kind == "PARTIAL":
            for spec in plan.states:
                if spec.name not in plan.behind:
                    if not self.first:
                        self.before.setdefault(spec.name, len(known.get(spec.name, ())))
                    self.moments.standing[spec.name] = now
            if self.first and all(self.moments.standing.get(n) == now for n in self.states):
                self._begin_anew()  # there is no content that stands earlier
            return
        self._begin_anew()
        self.result = result
        self.chosen = plan.chosen
        read = self.first or changed & _sources(self.query.root)
        took = plan.estimated * self.dice.choice([0.1, 1, 10])
        self.past.insert(0, PastRun(plan.kind, plan.estimated, took, methods=plan.methods))
        self.kinds.append(plan.kind if read else "NO_DATA")  # what the runtime would not even plan
        self.first = False
        self._check(plan)

    def _begin_anew(self) -> None:
        self.moments.begin_anew()
        self.before, self.held = {}, []

    def _applied(self, delta: Sequence[Record]) -> list[Record]:
        names = [n for _, n in self.query.output]
        changes = Counter[Row]()
        for record in delta:
            row = tuple(record[n] for n in names)
            assert row not in changes, f"the delta holds a row twice: {row}"
            assert record["_n"] != 0, f"the delta holds a count of 0: {row}"
            changes[row] = record["_n"]
        bag = Counter(self.rows())
        bag.update(changes)
        gone = [r for r, n in bag.items() if n < 0]
        assert not gone, f"the delta takes away what the view does not hold: {gone}"
        return [dict(zip(names, r, strict=True)) for r in bag.elements()]

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check(self, plan: ExplainedPlan) -> None:
        assert isfinite(plan.estimated), explained(plan, "PLAN")
        if self.valid is not None:
            self.valid(self.rows(), self)
        else:
            wanted, got = self.oracle().bag([c for c, _ in self.query.output]), Counter(self.rows())
            assert got == wanted, f"missing {wanted - got}, unexpected {got - wanted}\n{explained(plan, 'PLAN')}"
        if plan.keys is not None:
            values = [tuple(r[k] for k in plan.keys) for r in self.result]
            assert len(set(values)) == len(values), f"{plan.keys} is no key"
        if self.valid is None and self.states and plan.kind == "INCREMENTAL":
            self._check_states(plan)

    def _check_states(self, plan: ExplainedPlan) -> None:
        """Base and segments, merged, are the base made anew."""
        kept, self.states = self.states, {}
        anew = self._plan(first=True, keep=1.0)
        self.states = kept
        world = self._world()
        fresh: dict[str, list[Record]] = {}
        for step in anew.steps:
            world.staged[step.name] = records_of(step, run(step.plan, world))
            if step.state is not None:
                fresh[step.state] = world.staged[step.name]
        for spec in plan.states:
            keys = self._keys_of[spec.name]
            found = merged([record for piece in self.states[spec.name] for record in piece], keys)
            wanted = merged(fresh[spec.name], keys)
            shown = f"state {spec.name} ({spec.form} of {spec.text}): {found} for {wanted}"
            assert found == wanted, f"{shown}\n{explained(plan, 'PLAN')}"


def _checked_cuts(memo: Memo) -> None:
    push_cuts(memo)
    check(memo)


def _sources(tree: Tree) -> frozenset[int]:
    own = frozenset({tree.op.source}) if isinstance(tree.op, Scan) else frozenset()
    return own.union(*map(_sources, tree.inputs))


def _columns_in(tree: Tree) -> set[int]:
    """The columns of a relation and of all below it."""
    return set(columns_of(tree)).union(*map(_columns_in, tree.inputs))
