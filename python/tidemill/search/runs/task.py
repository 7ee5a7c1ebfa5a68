"""One planning call: its spaces, the choices it allows, and the time that its searches share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from tidemill.cost.kept import KeptRows, StateRows
from tidemill.cost.models import cost_model
from tidemill.memo.events import Reader
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Budget, Stopped
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.choose.allowed import EVERYWHERE, AllBut, Allowed
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned import Planned
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.choose.settle import Place
from tidemill.search.choose.sharing import Shared, Start, TimeLimit, cheapest
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import states_read
from tidemill.search.contract.stored import Piece
from tidemill.search.keep.compaction import compaction_of
from tidemill.search.keep.likely import choice_holds, plain_circumstances
from tidemill.search.keep.wanted import unread_states, wanted_states
from tidemill.search.runs.applying import handling
from tidemill.search.runs.assembly import Assembly
from tidemill.search.runs.explanation import PlannedPoint, SearchStats
from tidemill.search.space.seed import RECOMPUTE, Candidate, alone_with, answered_from_sources, owed_to
from tidemill.search.space.space import NONE_FOLLOWED, Followed, Kept, Space, SpaceRequest, explore_space


class PlanningTask:
    """One call of `plan_run`: the request, with the model, the rules and the time that its searches share.

    `readers`: receive the events of all its spaces.
    """

    def __init__(self, request: PlanRequest, readers: Sequence[Reader] = ()) -> None:
        self.request = request
        self.readers = tuple(readers)
        self.model = cost_model(request.settings.cost_model, request.settings.cost_constants)
        rules = load_rules(request.settings.rules_paths)
        self.rules: list[Rule] = [r for r in rules if r.pack in request.settings.packs]
        self.budget = Budget(seconds=request.settings.time_limit)
        self._lying = {name: piece.order for name, piece in _bases(request) if piece.order is not None}
        self._orders: Mapping[str, str] = self._lying
        self.choice = Choice(plain_circumstances(request))
        """The choice of states that this call has made; before, one that knows only what it may use."""
        self._started = time.monotonic()
        self._cut_off = False

    @property
    def packs(self) -> tuple[str, ...]:
        """The packs of the rules, in their order."""
        return tuple(dict.fromkeys(rule.pack for rule in self.rules))

    def space(
        self,
        steps: Sequence[Mapping[int, SourceChange]],
        kept: Kept,
        ahead: Sequence[Mapping[int, SourceChange]] = (),
    ) -> Space:
        """The space of the run after `steps`; `ahead`: the expected transitions after that."""
        request, now = self.request, len(steps)
        measured = request.measured if len(steps) == len(request.steps) else lambda _tree, _form: None
        asked = SpaceRequest(request.query, (*steps, *ahead), now, kept, request.meaning, measured)
        return explore_space(asked, self.rules, self.model, self.budget, self.readers)

    def kept(self, *, content: bool = True) -> Kept:
        """Everything that earlier runs left."""
        request = self.request
        return Kept(
            states={name: request.standing.get(name, 0) for name in request.states},
            content=content,
            held=request.held if content else 0,
            rows=_kept_rows(request),
            stored=request.stored if request.states else (),
            orders=self._lying,
        )

    @cached_property
    def whole(self) -> Space:
        """The space of a run that reads the sources alone."""
        steps = [self.request.unchanged] * len(self.request.steps)
        return self.space(steps, Kept({}, rows=self.kept().rows))

    @property
    def told_from(self) -> float | None:
        """Rows of the content from which a full run tells its change to the views above; None if it tells nothing."""
        return (self.request.rows or 0.0) if self.request.tells else None

    @property
    def own_point(self) -> tuple[PlannedPoint, ...]:
        """The run's own point of the schedule, as the only planned one."""
        return (PlannedPoint(self.request.point, self.request.price, output=not self.request.ahead),)

    def extractor(
        self,
        space: Space,
        prefer: str | None = None,
        *,
        past: bool = True,
        packs: frozenset[str] | None = None,
        states: Collection[str] | None = None,
        followed: Followed = NONE_FOLLOWED,
    ) -> Extractor:
        """The choices for this run alone.

        `past`, `packs`, `states`: as in `Allowed`; `followed`: groups that it writes in any case. The difference of two
        full computations of the whole view must be requested to count as a way to compute its change.
        """
        preferred = prefer or self.request.settings.prefer
        whole_allowed = preferred == RECOMPUTE and self.request.policy == "AUTO"
        recompute = EVERYWHERE if whole_allowed else AllBut({space.memo.find(space.change)})
        barred = answered_from_sources(space.memo, space.now) if past else frozenset()
        return self._choices(space, Allowed(space.memo, barred, past, packs, states, recompute), preferred, followed)

    def without_recompute(self, space: Space, followed: Followed = NONE_FOLLOWED) -> Extractor:
        """The choices of all packs but `recompute`."""
        barred = answered_from_sources(space.memo, space.now)
        return self._choices(space, Allowed(space.memo, barred, recompute=frozenset()), None, followed)

    def _choices(self, space: Space, allowed: Allowed, prefer: str | None, followed: Followed) -> Extractor:
        written = [(group, 0) for group in followed.written]
        copies = {(copy, 0): (of, 0) for copy, of in followed.copies.items()}
        after = handling(self.request.query, space, followed, self.request.layout, self.model)
        return Extractor(
            space.memo,
            self.model,
            space.facts,
            allowed.allows,
            prefer,
            (PlannedRun(space.now),),
            written=written,
            copies=copies,
            ways=space.ways,
            handling={(group, 0): cost for group, cost in after.items()},
        )

    def able(self, space: Space) -> tuple[str, ...]:
        """The packs that found a way to compute or write something; `recompute` always does."""
        there = {RECOMPUTE} | {e.pack for group in space.memo.live_groups() for e in group.expressions}
        there |= {way[1] for tvr in space.memo.tvrs for way in tvr.found if way is not None}
        return tuple(pack for pack in self.packs if pack in there)

    def seeds(self, space: Space) -> tuple[str, ...]:
        """The packs whose own plans the search starts from, beside the overall best tree.

        The most useful come first: over TPC-DS, plans with other join orders were the cheapest most often, plans of
        deltas alone took longest to search, and that of `recompute` seldom differed from the best one.
        """
        if self.request.settings.prefer is not None:
            return ()
        last_first = self.able(space)[::-1]
        return tuple(sorted(last_first, key=lambda pack: pack == RECOMPUTE))

    def cheapest(
        self,
        make: Callable[[str | None], Extractor],
        packs: Sequence[str],
        demands: Sequence[int],
        run: int,
        others: Iterable[Start] = (),
    ) -> Shared:
        """The cheapest plan for these groups within the time of a search: from the best tree, from the plan of each
        pack (`make` prefers it), from `others`, and from the best tree if what rules make for several readers is
        computed once."""
        limit = TimeLimit(self.request.settings.time_limit)
        extractor = make(None)
        starts = [Start(partial(make, pack), partial(extractor.prefers, pack), f"{pack} preferred") for pack in packs]
        if often := extractor.read_often(run):
            once = partial(_computing_once, make, often)
            starts.insert(0, Start(once, partial(_computes, often), "what several readers read, written once"))
        best = cheapest(extractor, (*starts, *others), demands, run, limit)
        self._cut_off |= limit.cut_off
        return best

    def alone(self, space: Space, pack: str, best: Extractor, make: Callable[[], Extractor]) -> Start:
        """A pack's own choices, which `make` makes, as a start beside the `best` ones of all packs."""

        def takes(plan: Sequence[Planned]) -> bool:
            owed = (owed_to(space.memo, p.group, p.choice.expression) for p in plan if p.choice.expression is not None)
            return best.prefers(pack, plan) and alone_with(pack).issuperset(owed)

        return Start(make, takes, f"{pack} alone")

    def assembly(self, space: Space, extractor: Extractor) -> Assembly:
        """An assembly of the run's steps, without any step yet."""

        def search() -> SearchStats:
            stopped = Stopped.TIME_LIMIT if self._cut_off else space.explored.stopped
            return SearchStats(time.monotonic() - self._started, stopped)

        request, orders = self.request, self._orders
        return Assembly(request.query, self.model, space, extractor, search, orders, self._lying, request.layout)

    def compact(self, run: Assembly, followed: Sequence[Candidate]) -> None:
        """Compacts the states that a run follows, where that is due."""
        read, asked = states_read(run.steps), run.asked
        grown = {step.state for step in run.steps if step.mode == "segment"}
        # Equal parts of a query share one state.
        for candidate in {c.name: c for c in followed}.values():
            name = candidate.name
            compaction = compaction_of(name, self.request, self.model, read, asked, grows=name in grown)
            if compaction is not None:
                # Where there is little room, what this run adds is merged as well.
                run.compact(candidate, compaction, last=bool(self.request.between) or self.request.tight)

    def worth_keeping(self, there: Collection[str] | None = None) -> frozenset[str]:
        """Names of the states to keep for likely changes; new bases are written in the orders worth having. `there`: as
        in `wanted_states`."""
        wanted = wanted_states(self, there)
        self._orders = {**wanted.orders, **self._lying}
        self.choice = wanted.choice
        return wanted.names

    @property
    def holds(self) -> bool:
        """True if the choice of the kept states still holds."""
        return choice_holds(self.request)

    def unread(self, names: Collection[str]) -> frozenset[str]:
        """Returns those of these states that no likely run reads."""
        return unread_states(self, names)


def _computing_once(make: Callable[[str | None], Extractor], places: frozenset[Place]) -> Extractor:
    extractor = make(None)
    extractor.share(places)
    return extractor


def _computes(places: frozenset[Place], plan: Sequence[Planned]) -> bool:
    return places <= {(p.group, p.run) for p in plan if p.once}


def _bases(request: PlanRequest) -> list[tuple[str, Piece]]:
    return [(name, pieces[0]) for name, pieces in request.pieces.items() if pieces]


def _kept_rows(request: PlanRequest) -> KeptRows:
    """Rows of what earlier runs left, where they were counted."""
    states = {name: StateRows(_rows(pieces), _rows(pieces[1:])) for name, pieces in request.pieces.items()}
    for name, count in request.before.items():
        pieces = request.pieces.get(name, ())
        state = states.get(name, StateRows())
        states[name] = replace(state, before=_rows(pieces[:count]), since=_rows(pieces[count:]))
    return KeptRows(states, request.rows, request.held_rows, request.learned.sizes)


def _rows(pieces: Sequence[Piece]) -> float:
    return float(sum(p.rows for p in pieces))
