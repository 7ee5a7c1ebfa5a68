"""The plan of a run: full or incremental, its steps in order, the states it keeps, and why.

One time point is planned here. The pipeline, top to bottom: normal form; the space of the change; the cheapest plan
under the policy; against it the full plan; lowering, state by state and the result last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from tidemill.errors import TidemillError
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange, joined
from tidemill.plan.ops import StateScan
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.assembly import RECOMPUTE, Assembly
from tidemill.search.compaction import Piece, due
from tidemill.search.costing import HELD
from tidemill.search.explanation import Alternative, PlannedPoint
from tidemill.search.extract import Extractor, reads_the_past
from tidemill.search.inspect import unable
from tidemill.search.keeping import Prices, worth_keeping
from tidemill.search.models import cost_model
from tidemill.search.run_plan import RunPlan, StateSpec, read_by, states_read
from tidemill.search.seed import CORE, Candidate, advance, answered_from_sources, base
from tidemill.search.settle import Run
from tidemill.search.sharing import cheapest, share
from tidemill.search.space import Followed, Kept, Measured, Space, normal_query, space, written_once
from tidemill.settings import PlannerSettings
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, Time, at

ASSUMED_SHARE = 0.01
"""Share of each source that is taken to change per run when states are chosen at the filling."""
ASSUMED_ROWS = 1e6
"""Rows that each source is taken to have at least when states are chosen: tables grow, states are chosen once."""
NONE_FOLLOWED = Followed()
LAST = "last"
"""The objective that compares costs at the last point first, then at the one before it, and so on (Tempura's c_v)."""
BEFORE_THE_LAST = 1e-5
"""What a unit of work at a point weighs under it, against one at the next."""
DELTAS = "delta"
"""The pack that others may build upon."""
MOST_UNREAD = 32
"""Pieces that a state may have without a thought to merging them, as long as no run reads it."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the schedule that is to come: the price of a unit of its work, whether it has output, what is expected
    to happen to the sources until then, since the point before; and its number."""

    price: float
    output: bool
    changes: Mapping[int, SourceChange]
    number: int = 0


PLANNED_AHEAD = 3
"""Points to come that a run is planned together with, at most: the next ones by price, and the one that is due."""


def planned_with(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points to come that are planned jointly with a run (design 9a.9); what is expected until one that is left out
    is expected until the next.

    >>> [p.price for p in planned_with([Point(float(price), price == 5, {}) for price in (3, 1, 4, 2, 5)])]
    [1.0, 2.0, 5.0]
    """
    cheapest = sorted(range(len(points) - 1), key=lambda i: (points[i].price, i))[: PLANNED_AHEAD - 1]
    found: list[Point] = []
    waiting: list[Mapping[int, SourceChange]] = []
    for i, point in enumerate(points):
        waiting.append(point.changes)
        if i in cheapest or i == len(points) - 1:
            found.append(replace(point, changes=joined(waiting)))
            waiting = []
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a run is planned for.

    Attributes:
        sources: what happened to them since the view's content was made.
        states: names of the states that can be read.
        first: nothing was filled yet.
        full_reason: why the run must be full (a reason of SHOW REFRESHES); None if it need not be.
        pieces: of each state, where they are known.
        stored: what the states are that can be read.
        lost: names of states that should be there and are not: made anew by the way.
        chosen: the packs among which the plan was looked for that the kept states were chosen by; None if nothing is
            known of that. A run that may use others chooses anew.
        refill: why the earlier content cannot be built upon (a reason of SHOW REFRESHES); None if it can. The whole
            result is then made anew, from states that can be read, brought up to date, where that is cheapest.
        between: `sources` step by step, where runs without output have left something that stands between the content
            and now; empty if there is one step.
        standing: the moments at which states stand that were followed by such runs: 1 after the first step.
        before: of such states, how many pieces were there when the content was made.
        held: until when the view's change since its content is held back; 0 if it is not.
        held_rows: how many rows of it there are.
        meaning: the captured settings that give the query its meaning, as one text; part of the names of states.
        price: of a unit of this run's work.
        point: the number of this run's point in the schedule.
        ahead: the points to come. If there are any, this run has no output.
        measured: rows of forms of relations that are known, times being the moments planned; others are estimated.
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
    chosen: frozenset[str] | None = None
    refill: str | None = None
    between: tuple[Mapping[int, SourceChange], ...] = ()
    standing: Mapping[str, Time] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    held: Time = 0
    held_rows: float = 0.0
    meaning: str = ""
    price: float = 1.0
    point: int = 1
    ahead: tuple[Point, ...] = ()
    measured: Measured = lambda _tree, _form: None

    @property
    def steps(self) -> tuple[Mapping[int, SourceChange], ...]:
        """What happened to the sources, step by step."""
        return self.between or (self.sources,)

    @property
    def choice(self) -> frozenset[str]:
        """The packs among which this run would choose: a preferred one stands alone, FULL looks at none."""
        if self.policy == "FULL":
            return frozenset()
        return frozenset({self.settings.prefer}) if self.settings.prefer is not None else self.settings.packs


def plan_run(request: PlanRequest) -> RunPlan:
    """Plan a run.

    Raises:
        TidemillError: TIDEMILL_NOT_INCREMENTAL under INCREMENTAL or STRICT, if an operator has no rule but `recompute`.
    """
    planning = _Planning(replace(request, query=normal_query(request.query)))
    if request.ahead:
        return planning.early()
    if request.first and request.states and request.full_reason is None:
        return planning.refill("FIRST")
    if request.first or request.full_reason is not None:
        return planning.full(request.full_reason or "FIRST")
    if request.refill is not None:
        return planning.refill(request.refill)
    return planning.incremental()


class _Planning:
    """One call of `plan_run`.

    Attributes:
        anew: names of states that an incremental run makes anew.
        lost: its reason, where states are lost.
        chosen: as in `RunPlan`.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.anew = request.lost
        self.lost: str | None = None
        self.chosen = request.chosen
        self.model = cost_model(request.settings.cost_model, request.settings.cost_constants)
        rules = load_rules(request.settings.rules_paths)
        self.rules: list[Rule] = [r for r in rules if r.pack in request.settings.packs]
        self.budget = Budget(seconds=request.settings.time_limit)

    def _space(
        self,
        steps: Sequence[Mapping[int, SourceChange]],
        kept: Kept,
        ahead: Sequence[Mapping[int, SourceChange]] = (),
    ) -> Space:
        """The space of runs after `steps`; `ahead`: what is expected to happen after that."""
        request, now = self.request, len(steps)
        measured = request.measured if len(steps) == len(request.steps) else lambda _tree, _form: None
        return space(
            request.query,
            (*steps, *ahead),
            now,
            self.rules,
            self.model,
            self.budget,
            kept,
            settings=request.meaning,
            measured=measured,
        )

    def _kept(self, *, content: bool = True) -> Kept:
        """What earlier runs left."""
        request = self.request
        rows = {name: _rows(pieces) for name, pieces in request.pieces.items()}
        for name, count in request.before.items():
            pieces = request.pieces.get(name, ())
            rows |= {f"{name} before": _rows(pieces[:count]), f"{name} since": _rows(pieces[count:])}
        return Kept(
            states={name: request.standing.get(name, 0) for name in request.states},
            content=content,
            held=request.held if content else 0,
            rows={**rows, HELD: request.held_rows},
            stored=request.stored if request.states else (),
        )

    @property
    def _own_point(self) -> tuple[PlannedPoint, ...]:
        return (PlannedPoint(self.request.point, self.request.price, output=not self.request.ahead),)

    def _extractor(
        self,
        found: Space,
        prefer: str | None = None,
        *,
        past: bool = True,
        packs: frozenset[str] | None = None,
        states: Collection[str] | None = None,
        followed: Followed = NONE_FOLLOWED,
    ) -> Extractor:
        """The choices for this run alone.

        `past`: whether it may read what was, changes and states; `packs`, `states`: those it may use, all unless given;
        `followed`: what it writes in any case.
        """
        preferred = prefer or self.request.settings.prefer
        whole_allowed = preferred == RECOMPUTE and self.request.policy == "AUTO"
        answered = answered_from_sources(found.memo, found.now) if past else frozenset()

        def allowed(group: int, e: Expression) -> bool:
            if not past and reads_the_past(e.op):
                return False
            if (group, type(e.op)) in answered or (packs is not None and e.pack not in packs):
                return False
            if states is not None and isinstance(e.op, StateScan) and e.op.name not in states:
                return False
            whole = e.pack == RECOMPUTE and group == found.memo.find(found.change)
            return whole_allowed or not whole

        return self._choices(found, allowed, preferred, followed)

    def _choices(
        self, found: Space, allowed: Callable[[int, Expression], bool], prefer: str | None, followed: Followed
    ) -> Extractor:
        runs, written = (Run(found.now),), [(group, 0) for group in followed.written]
        copies = {(copy, 0): (of, 0) for copy, of in followed.copies.items()}
        return Extractor(found.memo, self.model, found.facts, allowed, prefer, runs, written=written, copies=copies)

    @property
    def _seeds(self) -> tuple[str, ...]:
        """The packs whose own plans the search starts from, beside the best one of all."""
        if self.request.settings.prefer is not None:
            return ()
        return tuple(dict.fromkeys(rule.pack for rule in self.rules))

    # -- incremental --------------------------------------------------------------------------------------------------

    def incremental(self) -> RunPlan:
        """The cheapest plan from the change, unless the policy allows a full one that is cheaper.

        The difference of two full computations of the whole view is no incremental plan; where the cheapest plan comes
        to that in other words, the cheapest without `recompute` stands for the incremental side.
        """
        found = self._space(self.request.steps, self._kept())
        if self.request.policy in {"INCREMENTAL", "STRICT"} and not self.request.lost:
            self._check_rules(found)
        self._look_for_states(found)
        plan = self._change(
            found, lambda prefer, followed: self._extractor(found, prefer, followed=followed), self._seeds
        )
        if plan is None:
            return self.full(self.lost or self._why_not(found))
        if self.request.policy != "AUTO" or self.request.settings.prefer is not None:
            return plan
        if not _from_the_past(plan):
            plan = self._change(found, lambda _, followed: self._without_recompute(found, followed))
            if plan is None:
                return self.full(self.lost or self._why_not(found))
        full = self.full(self.lost or "COST")
        if full.estimated < plan.estimated - self.model.noise:
            return replace(full, explanation=replace(full.explanation, rivals=plan.explanation.rivals))
        return plan

    def _look_for_states(self, found: Space) -> None:
        """Notes which states are lost, and which are made anew.

        Lost are, beside those that cannot be read: those whose name is no candidate's, as the query's text or the way
        to name states has changed; and those that an earlier run, which might not use a pack that this one may, gave
        up or did not make. In their place the states worth keeping now are made.
        """
        request = self.request
        self.anew, missing = request.lost, request.lost
        unknown = request.states - {c.name for c in found.candidates}
        given_up = request.chosen is not None and not request.choice <= request.chosen
        if unknown or given_up:
            wanted = self._worth_keeping() - request.states
            self.anew |= wanted
            missing |= unknown | (wanted if given_up else frozenset())
            self.chosen = request.choice
        self.lost = f"STATE_LOST: {', '.join(sorted(missing))}" if missing else None

    def _without_recompute(self, found: Space, followed: Followed = NONE_FOLLOWED) -> Extractor:
        barred = answered_from_sources(found.memo, found.now)

        def allowed(group: int, e: Expression) -> bool:
            return e.pack != RECOMPUTE and (group, type(e.op)) not in barred

        return self._choices(found, allowed, None, followed)

    def _check_rules(self, found: Space) -> None:
        """An operator lacks a rule if none but `recompute` computes its change even where every state is kept: which
        of them are is decided by cost. What a source has no longer is no operator's fault.
        """
        if self._computes(found):
            return
        every = self._space([self._as_if_kept()], Kept(None))
        if not self._computes(every):
            operator, _, reason = unable(every, self._without_recompute(every)).partition(": ")
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", {"operator": operator, "reason": reason})

    def _computes(self, found: Space) -> bool:
        """Whether rules other than `recompute` compute the view's change."""
        return self._without_recompute(found).best(found.change) is not None

    def _as_if_kept(self) -> dict[int, SourceChange]:
        """The sources, each with its old content."""
        return {number: replace(source, old_readable=True) for number, source in self.request.sources.items()}

    def _why_not(self, found: Space) -> str:
        """The reason why nothing but recomputing computes the view's change."""
        gone = [n for n, source in self.request.sources.items() if source.changed and not source.old_readable]
        kept = Kept(dict.fromkeys(self.request.states, 0))
        if gone and self._computes(self._space([self._as_if_kept()], kept)):
            names = ", ".join(sorted({self.request.query.sources[n].name for n in gone}))
            return f"HISTORY_GONE: what {names} held at the last run cannot be read any more"
        return "NOT_INCREMENTAL: " + unable(found, self._without_recompute(found))

    def _change(
        self, found: Space, make: Callable[[str | None, Followed], Extractor], seeds: Sequence[str] = ()
    ) -> RunPlan | None:
        """The plan of the view's change, and of the states that follow it; None if nothing computes it.

        `make`: choices that prefer a pack, where a run writes some groups in any case; `seeds`: see `cheapest`.
        """
        # Where states are made anew, each is written before the next is planned: that may be what makes it possible.
        followed = NONE_FOLLOWED if self.anew else found.followed(self.request.states)
        extractor = make(None, followed)
        demands = [group for group in (*followed.written, found.change) if extractor.best(group) is not None]
        if not self.anew:
            best = extractor
            extractor = cheapest(lambda prefer: make(prefer, followed) if prefer else best, seeds, demands, 0).extractor
        run = self._assembly(found, extractor)
        for candidate in found.candidates:
            if candidate.name in self.anew:
                run.base(candidate)
        if found.changed and extractor.best(found.change) is None:
            return None
        run.once(demands, lambda group: self._advance(run, found, followed.written[group]))
        follow = [c for c in found.candidates if c.name in self.request.states]
        kept = [c for c in follow if run.advance(c)]
        run.delta(found.change)
        self._compact(run, kept)
        # A state that cannot follow this change is given up, and the next run that may use other packs makes it anew.
        chosen = self.chosen if len(kept) == len(follow) else frozenset()
        return run.plan("INCREMENTAL", self.lost, lambda: self._alternatives(found), self._own_point, chosen=chosen)

    @staticmethod
    def _advance(run: Assembly, found: Space, name: str) -> None:
        for candidate in (c for c in found.candidates if c.name == name):
            run.advance(candidate)

    def _compact(self, run: Assembly, followed: Sequence[Candidate]) -> None:
        """Puts together the pieces of states that the run reads, where that pays for runs like it; of others, so that
        their files do not become too many."""
        if self.request.between:
            return  # what came before the content and since then is still told apart
        read = states_read(run.steps)
        # Equal parts of a query share one state.
        for candidate in {c.name: c for c in followed}.values():
            pieces = self.request.pieces.get(candidate.name, ())
            compaction = due(pieces, self.model) if candidate.name in read or len(pieces) > MOST_UNREAD else None
            if compaction is not None:
                run.compact(candidate, compaction)

    def _assembly(self, found: Space, extractor: Extractor) -> Assembly:
        return Assembly(self.request.query, self.model, found, extractor)

    # -- early ---------------------------------------------------------------------------------------------------------

    def early(self) -> RunPlan:
        """A run without output: what is worth doing now for the next one that has output, and nothing else.

        What that one needs, the view's change and that of each state, is planned over all runs until then; what the
        plan saves at this run is what this run does.
        """
        request = self.request
        due = next((i for i, p in enumerate(request.ahead, 1) if p.output), len(request.ahead))
        points = request.ahead[:due]
        steps = request.steps
        if request.first and not request.states:  # nothing stands anywhere yet
            steps = (_unchanged(request.sources),)
        found = self._space(steps, self._kept(content=not request.first), [p.changes for p in points])
        memo, now, end = found.memo, found.now, found.now + due
        early = range(now, end)
        wanted = self._worth_keeping() if request.first else frozenset()
        parts: dict[int, Candidate] = {}
        needed: list[tuple[str, int]] = []
        savable: set[int] = set()
        for candidate in found.candidates:
            standing = found.standing.get(candidate.name)
            if standing is None and not request.first:
                continue  # it has no content that this run could go on from
            if standing is None:
                if candidate.name in wanted:
                    needed.append((candidate.name, base(memo, candidate, end)))
                parts.setdefault(base(memo, candidate, now), candidate)
                savable.update(base(memo, candidate, moment) for moment in early)
            else:
                needed.append((candidate.name, advance(memo, candidate, Span(standing, end))))
                if memo.changed(candidate.tvr, Span(standing, now)):
                    parts.setdefault(advance(memo, candidate, Span(standing, now)), candidate)
            savable.update(
                advance(memo, candidate, span)
                for span in _intervals(early if standing is None else (standing, *early))
                if memo.changed(candidate.tvr, span)
            )
        states = written_once(needed)
        demands = list(states.written)
        held = memo.change(found.root, DELTA, Span(request.held, now))
        if request.first:
            demands.append(memo.form(found.root, at(SNAPSHOT, end)))
        else:
            demands.append(memo.change(found.root, DELTA, Span(0, end)))
            if memo.tvrs[found.root].props.reproducible:
                spans = (s for s in _intervals((request.held, *early)) if memo.changed(found.root, s))
                savable.update(memo.change(found.root, DELTA, span) for span in spans)
        barred = answered_from_sources(memo, now)
        # What is computed again from the sources needs nothing done early; a full run with output is such a thing.
        again = {memo.change(found.root, DELTA, Span(0, end))} if request.policy == "AUTO" else set()
        prices = [request.price, *(p.price for p in points)]
        if request.settings.objective == LAST:
            prices = [BEFORE_THE_LAST ** (due - i) for i in range(due + 1)]
        runs = [Run(now + i, price) for i, price in enumerate(prices)]

        def choices(packs: Collection[str] | None = None, prefer: str | None = None) -> Extractor:
            def allowed(group: int, e: Expression) -> bool:
                if (group, type(e.op)) in barred or (packs is not None and e.pack not in packs):
                    return False
                return e.pack != RECOMPUTE or group in again

            written = [(group, due) for group in demands]
            copies = {(copy, due): (of, due) for copy, of in states.copies.items()}
            return Extractor(
                memo, self.model, found.facts, allowed, prefer, runs, savable.__contains__, written, copies
            )

        def rivals() -> list[Alternative]:
            found = []
            for pack in dict.fromkeys(rule.pack for rule in self.rules):
                packs = {CORE, pack, RECOMPUTE} | ({DELTAS} if pack != RECOMPUTE else set())
                wanted = demands if pack != RECOMPUTE else demands[-1:]  # it keeps nothing
                best = share(choices(packs, pack), wanted, due)
                methods = {p.choice.expression.pack for p in best.plan if p.choice.expression} - {CORE}
                methods |= {RECOMPUTE} if pack == RECOMPUTE else set()
                if pack in methods and best.costs:
                    found.append(Alternative(pack, tuple(sorted(methods)), tuple(best.costs)))
            return found

        chosen = cheapest(lambda prefer: choices(prefer=prefer or request.settings.prefer), self._seeds, demands, due)
        extractor = chosen.extractor
        possible = {*parts, *({held} & savable)}
        saved = self._worth_saving(extractor, demands, possible)
        run = self._assembly(found, extractor)
        run.once(sorted(saved))
        for group, candidate in parts.items():
            if group in saved:
                if candidate.name in found.standing:
                    run.advance(candidate)
                else:
                    run.base(candidate)
        for candidate in found.candidates:
            if candidate.name in found.standing:
                run.leave(candidate)
        if held in saved:
            run.hold(held, "segment" if request.held else "base")
        ahead = (PlannedPoint(p.number, p.price, p.output, p.changes) for p in points)
        return run.plan("PARTIAL", None, rivals, (*self._own_point, *ahead), chosen)

    def _worth_saving(self, extractor: Extractor, demands: Sequence[int], possible: Collection[int]) -> Collection[int]:
        """Which of the groups that the first run can save it does, in the cheapest plan of what the last one needs."""
        last = len(extractor.runs) - 1
        saved = {group for demand in demands for group, run in extractor.saved_by(demand, last) if run == 0}
        assert saved <= set(possible)
        return saved

    # -- full ---------------------------------------------------------------------------------------------------------

    def full(self, reason: str) -> RunPlan:
        """Everything from the sources: the states worth keeping first, then the result over them."""
        found = self._space([_unchanged(self.request.sources)] * len(self.request.steps), Kept({}))
        run = self._assembly(found, self._extractor(found, past=False))
        kept = frozenset() if self.request.policy == "FULL" else self._worth_keeping()
        for candidate in found.candidates:
            if candidate.name in kept:
                run.base(candidate)
        run.result()
        rival = Alternative(RECOMPUTE, (RECOMPUTE,), (run.cost,))
        return run.plan("FULL", reason, lambda: [rival], self._own_point, chosen=self.request.choice)

    def refill(self, reason: str) -> RunPlan:
        """The whole result anew: states that can be read are brought up to date, others worth keeping are made."""
        found = self._space(self.request.steps, self._kept(content=False))
        kept = frozenset() if self.request.policy == "FULL" else self._worth_keeping()
        memo = found.memo
        plain = self._extractor(found)

        def made(candidate: Candidate) -> Iterator[int]:
            """What is written of a state: what changes in it, or all of it."""
            if candidate.name in self.request.states:
                span = Span(found.standing.get(candidate.name, 0), found.now)
                change = advance(memo, candidate, span)
                if not memo.changed(candidate.tvr, span):
                    return
                if plain.best(change) is not None:
                    yield change
                    return
            yield base(memo, candidate, found.now)

        written = written_once((c.name, group) for c in found.candidates if c.name in kept for group in made(c))
        demands = [*written.written, memo.form(found.root, at(SNAPSHOT, found.now))]
        run = self._assembly(
            found,
            cheapest(
                lambda prefer: self._extractor(found, prefer, followed=written), self._seeds, demands, 0
            ).extractor,
        )

        def write(name: str) -> Iterator[Candidate]:
            """Writes a state; gives out what of it follows changes."""
            for candidate in (c for c in found.candidates if c.name == name):
                if name in self.request.states and run.advance(candidate):
                    yield candidate
                else:
                    run.base(candidate)

        run.once(demands, lambda group: list(write(written.written[group])))
        followed = [c for name in dict.fromkeys(c.name for c in found.candidates) if name in kept for c in write(name)]
        run.result()
        self._compact(run, followed)
        kind = "INCREMENTAL" if read_by(run.steps) & {"changes", "state"} else "FULL"
        return run.plan(kind, reason, tuple, self._own_point, chosen=self.request.choice)

    def _worth_keeping(self) -> frozenset[str]:
        """Names of the states to keep for changes like those to come."""
        assumed = {n: _assumed(s, self.request.query.sources[n].kind) for n, s in self.request.sources.items()}
        found = self._space([assumed], Kept(None))
        anew = self._extractor(found, past=False)
        made = {c.name: base(found.memo, c, found.now) for c in found.candidates}
        making = {name: anew.cost(group) + self.model.save(anew.rows(group)) for name, group in made.items()}

        def choices(states: Collection[str], followed: Followed) -> Extractor:
            return self._extractor(found, states=states, followed=followed)

        return worth_keeping(found, choices, Prices(making, self.model.save))

    def _alternatives(self, found: Space) -> list[Alternative]:
        """The best plan of each pack, with `delta` or `recompute` underneath; of `recompute`, all from the sources."""

        def best(pack: str) -> RunPlan | None:
            if pack == RECOMPUTE:
                return self.full("COST")
            packs = frozenset({CORE, pack, DELTAS, RECOMPUTE})
            return self._change(found, lambda _, followed: self._extractor(found, pack, packs=packs, followed=followed))

        plans = {pack: best(pack) for pack in dict.fromkeys(rule.pack for rule in self.rules)}
        return [
            Alternative(pack, plan.methods, (plan.estimated,))
            for pack, plan in plans.items()
            if plan is not None and pack in plan.methods
        ]


def _intervals(moments: Iterable[Time]) -> Iterator[Span]:
    return (Span(i, j) for i, j in combinations(moments, 2))


def _rows(pieces: Sequence[Piece]) -> float:
    return float(sum(p.rows for p in pieces))


def _unchanged(sources: Mapping[int, SourceChange]) -> dict[int, SourceChange]:
    return {n: replace(s, changed=False) for n, s in sources.items()}


def _assumed(source: SourceChange, kind: str) -> SourceChange:
    rows = max(source.rows or ASSUMED_ROWS, ASSUMED_ROWS)
    share = rows * ASSUMED_SHARE
    changed = kind != "static"
    return replace(source, changed=changed, old_readable=True, reason=None, rows=rows, inserts=share, deletes=share)


def _from_the_past(plan: RunPlan) -> bool:
    """True if a plan's content comes from changes, states or the last answer, not from whole sources alone."""
    past = {"changes", "state"} if RECOMPUTE in plan.methods else {"changes", "state", "result"}
    return bool(read_by(plan.steps) & past)
