"""One call of the planner: the spaces it looks at, the choices it allows, the states it finds worth keeping."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tidemill.cost.kept import KeptRows, StateRows
from tidemill.cost.models import cost_model
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import state_of
from tidemill.rule.engine import TIME_LIMIT, Budget
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.choose.extract import Extractor, reads_the_past
from tidemill.search.choose.settle import Run
from tidemill.search.choose.sharing import Shared, Start, TimeLimit, cheapest
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import states_read
from tidemill.search.contract.stored import Asked, Piece
from tidemill.search.keep.compaction import due
from tidemill.search.keep.keeping import Prices, Scenario, worth_keeping, worth_ordering
from tidemill.search.runs.assembly import RECOMPUTE, Assembly
from tidemill.search.runs.explanation import PlannedPoint, Search
from tidemill.search.space.seed import Candidate, answered_from_sources, base, owed_to
from tidemill.search.space.space import Followed, Kept, Space, SpaceRequest, explore_space, written_once
from tidemill.tvr.form import SNAPSHOT, at

ASSUMED_SHARE = 0.01
"""Share of each source that is taken to change per run when states are chosen at the filling."""
ASSUMED_ROWS = 1e7
"""Rows that the largest source is taken to have at least when states are chosen, the others in proportion: tables grow,
states are chosen once. So many has one of which nothing is known."""
LARGE = 0.1
"""Share of the largest source's rows from which on a source is large."""
CYCLES = 10
"""Cycles of expected arrivals that a source is taken to hold at least when states are chosen."""
NONE_FOLLOWED = Followed()
DELTAS = "delta"
"""The pack that others may build upon."""
MOST_UNREAD = 32
"""Pieces that a state may have without a thought to merging them, as long as no run reads it."""


class PlanningTask:
    """One call of `plan_run`: the request, and the model, the rules and the time that all its searches share."""

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.model = cost_model(request.settings.cost_model, request.settings.cost_constants)
        rules = load_rules(request.settings.rules_paths)
        self.rules: list[Rule] = [r for r in rules if r.pack in request.settings.packs]
        self.budget = Budget(seconds=request.settings.time_limit)
        self._lying = {name: piece.order for name, piece in _bases(request) if piece.order is not None}
        self._orders: Mapping[str, str] = self._lying
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
        """The space of runs after `steps`; `ahead`: what is expected to happen after that."""
        request, now = self.request, len(steps)
        measured = request.measured if len(steps) == len(request.steps) else lambda _tree, _form: None
        asked = SpaceRequest(request.query, (*steps, *ahead), now, kept, request.meaning, measured)
        return explore_space(asked, self.rules, self.model, self.budget)

    def kept(self, *, content: bool = True) -> Kept:
        """What earlier runs left."""
        request = self.request
        return Kept(
            states={name: request.standing.get(name, 0) for name in request.states},
            content=content,
            held=request.held if content else 0,
            rows=_kept_rows(request),
            stored=request.stored if request.states else (),
            orders=self._lying,
        )

    @property
    def own_point(self) -> tuple[PlannedPoint, ...]:
        return (PlannedPoint(self.request.point, self.request.price, output=not self.request.ahead),)

    def extractor(
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
        change = found.memo.find(found.change)

        def allowed(group: int, e: Expression) -> bool:
            if not past and reads_the_past(e.op):
                return False
            if (group, type(e.op)) in answered or (packs is not None and owed_to(found.memo, group, e) not in packs):
                return False
            if states is not None and state_of(e.op) not in {None, *states}:
                return False
            return whole_allowed or e.pack != RECOMPUTE or group != change

        return self.choices(found, allowed, preferred, followed)

    def without_recompute(self, found: Space, followed: Followed = NONE_FOLLOWED) -> Extractor:
        barred = answered_from_sources(found.memo, found.now)

        def allowed(group: int, e: Expression) -> bool:
            return owed_to(found.memo, group, e) != RECOMPUTE and (group, type(e.op)) not in barred

        return self.choices(found, allowed, None, followed)

    def choices(
        self,
        found: Space,
        allowed: Callable[[int, Expression], bool],
        prefer: str | None,
        followed: Followed,
    ) -> Extractor:
        runs, written = (Run(found.now),), [(group, 0) for group in followed.written]
        copies = {(copy, 0): (of, 0) for copy, of in followed.copies.items()}
        return Extractor(
            found.memo, self.model, found.facts, allowed, prefer, runs, written=written, copies=copies, ways=found.ways
        )

    def able(self, found: Space) -> tuple[str, ...]:
        """The packs that found a way to compute or to write something; `recompute` always has one."""
        there = {RECOMPUTE} | {e.pack for group in found.memo.live_groups() for e in group.expressions}
        there |= {way[1] for tvr in found.memo.tvrs for way in tvr.found if way is not None}
        return tuple(pack for pack in self.packs if pack in there)

    def seeds(self, found: Space) -> tuple[str, ...]:
        """The packs whose own plans the search starts from, beside the best one of all.

        In the order in which they are worth the time: over TPC-DS those of other join orders were the cheapest most
        often, those of deltas alone took longest, and that of `recompute` was seldom another one than the best.
        """
        if self.request.settings.prefer is not None:
            return ()
        last_first = self.able(found)[::-1]
        return tuple(sorted(last_first, key=lambda pack: pack == RECOMPUTE))

    def cheapest(
        self,
        make: Callable[[str | None], Extractor],
        packs: Sequence[str],
        demands: Sequence[int],
        run: int,
        others: Iterable[Start] = (),
    ) -> Shared:
        """The cheapest plan of what is demanded, in the time that a search may take: from the best tree, from the plan
        of each pack (`make` prefers it), and from `others`."""
        limit = TimeLimit(self.request.settings.time_limit)
        extractor = make(None)
        starts = [Start(partial(make, pack), partial(extractor.prefers, pack)) for pack in packs]
        best = cheapest(extractor, (*starts, *others), demands, run, limit)
        self._cut_off |= limit.cut_off
        return best

    def assembly(self, found: Space, extractor: Extractor) -> Assembly:
        def search() -> Search:
            stopped = TIME_LIMIT if self._cut_off else found.explored.stopped
            return Search(time.monotonic() - self._started, stopped)

        return Assembly(self.request.query, self.model, found, extractor, search, self._orders, self._lying)

    def compact(self, run: Assembly, followed: Sequence[Candidate]) -> None:
        """Puts together the pieces of states that the run reads, where that pays for runs like it; of others, so that
        their files do not become too many."""
        if self.request.between:
            return  # what came before the content and since then is still told apart
        read, asked = states_read(run.steps), run.asked
        # Equal parts of a query share one state.
        for candidate in {c.name: c for c in followed}.values():
            pieces = self.request.pieces.get(candidate.name, ())
            if not pieces or (candidate.name not in read and len(pieces) <= MOST_UNREAD):
                continue
            compaction = due(pieces, self.model, asked.get(candidate.name))
            if compaction is not None:
                run.compact(candidate, compaction)

    def worth_keeping(self) -> frozenset[str]:
        """Names of the states to keep for changes like those to come; those that it makes are in the order worth it."""
        kinds, cycle = self.request.query.sources, self.request.cycle
        sizes = {n: _size(s.rows, cycle.get(n)) for n, s in self.request.sources.items()}
        grown = max(1.0, ASSUMED_ROWS / max(sizes.values(), default=ASSUMED_ROWS))
        assumed = {
            n: _assumed(s, kinds[n].kind, cycle.get(n), sizes[n], grown) for n, s in self.request.sources.items()
        }
        if not any(change.changed for change in assumed.values()):
            return frozenset()
        likely = [assumed, *([] if cycle else _large_alone(assumed))]
        scenarios = [self._scenario(self.space([changes], Kept(None))) for changes in likely]
        found = scenarios[0].found
        result = found.memo.form(found.root, at(SNAPSHOT, found.now))

        def filling(kept: Collection[str]) -> float:
            made = [(c.name, base(found.memo, c, found.now)) for c in found.candidates if c.name in kept]
            written = written_once(made)
            anew = self.extractor(found, past=False, followed=written)
            saving = sum(self.model.save(anew.rows(group)) for group in written.written)
            return anew.costs(anew.planned([*written.written, result], 0))[0] + saving

        kept = worth_keeping(scenarios, Prices(filling, self.model.save), self.budget)
        self._orders = {**worth_ordering(scenarios, kept, self.model), **self._lying}
        return kept

    def _scenario(self, found: Space) -> Scenario:
        return Scenario(found, lambda states, followed: self.extractor(found, states=states, followed=followed))


def may_compact(request: PlanRequest, asked: Mapping[str, Asked]) -> bool:
    """Whether a run may put pieces of a state together; `asked`: what it asks states for by few keys."""
    model = cost_model(request.settings.cost_model, request.settings.cost_constants)
    return any(
        len(pieces) > MOST_UNREAD or due(pieces, model, asked.get(name)) is not None
        for name, pieces in request.pieces.items()
        if pieces
    )


def _bases(request: PlanRequest) -> list[tuple[str, Piece]]:
    return [(name, pieces[0]) for name, pieces in request.pieces.items() if pieces]


def _kept_rows(request: PlanRequest) -> KeptRows:
    """Rows of what earlier runs left, as far as they were counted."""
    states = {name: StateRows(_rows(pieces), _rows(pieces[1:])) for name, pieces in request.pieces.items()}
    for name, count in request.before.items():
        pieces = request.pieces.get(name, ())
        state = states.get(name, StateRows())
        states[name] = replace(state, before=_rows(pieces[:count]), since=_rows(pieces[count:]))
    return KeptRows(states, request.rows, request.held_rows)


def _rows(pieces: Sequence[Piece]) -> float:
    return float(sum(p.rows for p in pieces))


def unchanged(sources: Mapping[int, SourceChange]) -> dict[int, SourceChange]:
    """The sources as they are, nothing having happened to them."""
    return {n: replace(s, changed=False) for n, s in sources.items()}


def _size(rows: float | None, cycle: tuple[float, float] | None) -> float:
    """Rows that a source is taken to have before it grows: what is there, or what a few cycles leave in it."""
    left = CYCLES * (cycle[0] - cycle[1]) if cycle else 0.0
    return max(ASSUMED_ROWS if rows is None else rows, left, 1.0)


def _large_alone(changes: Mapping[int, SourceChange]) -> list[Mapping[int, SourceChange]]:
    """The same with changes of the large sources alone, if there are small ones that change.

    >>> sizes = {0: 1e6, 1: 2e5, 2: 9e4}
    >>> (alone,) = _large_alone({n: SourceChange(True, True, rows=rows) for n, rows in sizes.items()})
    >>> [n for n, source in alone.items() if source.changed]
    [0, 1]
    """
    most = max(s.rows or 0.0 for s in changes.values() if s.changed)
    small = {n for n, s in changes.items() if s.changed and (s.rows or 0.0) < LARGE * most}
    return [{n: replace(s, changed=s.changed and n not in small) for n, s in changes.items()}] if small else []


def _assumed(
    source: SourceChange, kind: str, cycle: tuple[float, float] | None, size: float, grown: float
) -> SourceChange:
    """What is taken to happen to a source from run to run.

    `cycle`: inserts and deletes, if they are expected; `grown`: how many times larger all sources are taken to become.
    """
    rows = size * grown
    inserts, deletes = (n * grown for n in cycle) if cycle else (rows * ASSUMED_SHARE, rows * ASSUMED_SHARE)
    changed = kind != "static" and inserts + deletes > 0
    return replace(source, changed=changed, old_readable=True, reason=None, rows=rows, inserts=inserts, deletes=deletes)
