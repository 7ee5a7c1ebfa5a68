"""Runs that compute the change of the view, and of the states that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.search.choose.extract import Extractor, Planned
from tidemill.search.choose.sharing import Start, share
from tidemill.search.contract.run_plan import read_by
from tidemill.search.runs.anew import full
from tidemill.search.runs.assembly import Assembly
from tidemill.search.runs.explanation import Alternative, ExplainedPlan
from tidemill.search.runs.inspect import unable
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import CORE, DELTAS, RECOMPUTE, base, owed_to
from tidemill.search.space.space import NONE_FOLLOWED, Followed, Kept, Space


class IncrementalPlanner:
    """The plan of a run that may be incremental.

    Attributes:
        anew: names of states that it makes anew.
        lost: its reason, where states are lost.
        chosen: as in `RunPlan`.
    """

    def __init__(self, task: PlanningTask) -> None:
        self.task = task
        self.request = task.request
        self.anew = task.request.lost
        self.lost: str | None = None
        self.chosen = task.request.chosen

    def plan(self) -> ExplainedPlan:
        """The cheapest plan from the change, unless the policy allows a full one that is cheaper.

        The difference of two full computations of the whole view is no incremental plan; where the cheapest plan comes
        to that in other words, the cheapest without `recompute` stands for the incremental side.
        """
        space = self.task.space(self.request.steps, self.task.kept())
        if self.request.policy in {"INCREMENTAL", "STRICT"} and not self.request.lost:
            self._check_rules(space)
        self._look_for_states(space)
        plan = self._change(
            space,
            lambda prefer, followed: self.task.extractor(space, prefer, followed=followed),
            self.task.seeds(space),
        )
        if plan is None:
            return full(self.task, self.lost or self._why_not(space))
        if self.request.policy != "AUTO" or self.request.settings.prefer is not None:
            return self._beside_full(plan)
        if not _from_the_past(plan):
            plan = self._change(space, lambda _, followed: self.task.without_recompute(space, followed))
            if plan is None:
                return full(self.task, self.lost or self._why_not(space))
        return self._cheaper(plan)

    def _all_anew(self) -> ExplainedPlan:
        """A full plan that makes the states that there are: what one would cost, without choosing states for it."""
        return full(self.task, "COST", None if self.chosen is None else self.request.states | self.anew)

    def _cheaper(self, plan: ExplainedPlan) -> ExplainedPlan:
        """The cheaper one of an incremental plan and a full one: by what runs like both took, where that is known of
        both, else by their estimates."""
        rival = self._all_anew()
        likely = {p.kind: self.request.past.likely(p.kind, p.estimated) for p in (plan, rival)}
        mine, other = likely[plan.kind], likely[rival.kind]
        if mine is None or other is None:
            mine, other = plan.estimated, rival.estimated
        costs = f"{plan.kind} {mine:.3f} ms, {rival.kind} {other:.3f} ms, taken if {self.task.model.noise:.0f} ms less"
        plan.explanation.space.memo.emit("best", "", 0, costs)
        if other < mine - self.task.model.noise:
            rival = full(self.task, self.lost or "COST")
            explanation = replace(rival.explanation, rivals=plan.explanation.rivals)
            return replace(rival, explanation=explanation, rejected=likely[plan.kind])
        return replace(plan, rejected=likely[rival.kind])

    def _beside_full(self, plan: ExplainedPlan) -> ExplainedPlan:
        """A plan to which there is no choice; what a full run would take is said where such runs were measured."""
        past = self.request.past
        if not any(run.kind == "FULL" for run in past.runs):
            return plan
        return replace(plan, rejected=past.likely("FULL", self._all_anew().estimated))

    def _look_for_states(self, space: Space) -> None:
        """Notes which states are lost, and which are made anew.

        Lost are, beside those that cannot be read: those whose name is no candidate's, as the query's text or the way
        to name states has changed; and those that an earlier run, which might not use a pack that this one may, gave
        up or did not make. In their place the states worth keeping now are made.
        """
        request = self.request
        self.anew, missing = request.lost, request.lost
        unknown = request.states - {c.name for c in space.candidates}
        given_up = request.chosen is not None and not request.choice <= request.chosen
        if unknown or given_up:
            wanted = self.task.worth_keeping() - request.states
            self.anew |= wanted
            missing |= unknown | (wanted if given_up else frozenset())
            self.chosen = request.choice
        self.lost = f"STATE_LOST: {', '.join(sorted(missing))}" if missing else None

    def _check_rules(self, space: Space) -> None:
        """An operator lacks a rule if none but `recompute` computes its change even where every state is kept: which
        of them are is decided by cost. What a source has no longer is no operator's fault.
        """
        if self._computes(space):
            return
        every = self.task.space([self._as_if_kept()], Kept(None))
        if not self._computes(every):
            operator, _, reason = unable(every, self.task.without_recompute(every)).partition(": ")
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", {"operator": operator, "reason": reason})

    def _computes(self, space: Space) -> bool:
        """Whether rules other than `recompute` compute the view's change."""
        return self.task.without_recompute(space).best(space.change) is not None

    def _as_if_kept(self) -> dict[int, SourceChange]:
        """The sources, each with its old content."""
        return {number: replace(source, old_readable=True) for number, source in self.request.sources.items()}

    def _why_not(self, space: Space) -> str:
        """The reason why nothing but recomputing computes the view's change."""
        gone = [n for n, source in self.request.sources.items() if source.changed and not source.old_readable]
        kept = Kept(dict.fromkeys(self.request.states, 0))
        if gone and self._computes(self.task.space([self._as_if_kept()], kept)):
            names = ", ".join(sorted({self.request.query.sources[n].name for n in gone}))
            return f"HISTORY_GONE: what {names} held at the last run cannot be read any more"
        return "NOT_INCREMENTAL: " + unable(space, self.task.without_recompute(space))

    def _change(
        self, space: Space, make: Callable[[str | None, Followed], Extractor], seeds: Sequence[str] = ()
    ) -> ExplainedPlan | None:
        """The plan of the view's change, and of the states that follow it; None if nothing computes it.

        `make`: choices that prefer a pack, where a run writes some groups in any case; `seeds`: see `cheapest`.
        """
        # Where states are made anew, each is written before the next is planned: that may be what makes it possible.
        followed = NONE_FOLLOWED if self.anew else space.followed(self.request.states)
        extractor = make(None, followed)
        demands = [group for group in (*followed.written, space.change) if extractor.best(group) is not None]
        if not self.anew:
            best = extractor
            packs = [pack for pack in seeds if pack != RECOMPUTE]
            # Preferred, `recompute` may do more than otherwise: no plan of the others is one of its.
            others = [
                Start(lambda: make(RECOMPUTE, followed), name=f"{RECOMPUTE} preferred"),
                Start(lambda: self.task.without_recompute(space, followed), name=f"without {RECOMPUTE}"),
                *(self._alone(space, pack, followed, best) for pack in packs),
            ]
            extractor = self.task.cheapest(
                lambda prefer: make(prefer, followed) if prefer else best, packs, demands, 0, others if seeds else []
            ).extractor
        run = self.task.assembly(space, extractor)
        bases = {c: base(space.memo, c, space.now) for c in space.candidates if c.name in self.anew}
        self._share(run, extractor, bases.values())
        made = [run.base(c) for c in bases]
        if space.changed and extractor.best(space.change) is None:
            return None
        if self.anew:
            self._share(run, extractor, (*space.followed(self.request.states).written, space.change))
        run.once(demands, lambda group: [run.advance(c) for c in space.named(followed.written[group])])
        follow = [c for c in space.candidates if c.name in self.request.states]
        kept = [c for c in follow if run.advance(c)]
        run.delta(space.change)
        self.task.compact(run, kept)
        # A state that cannot follow this change, or be made, is given up, and the next run that may use other packs
        # makes it anew.
        chosen = self.chosen if all(made) and len(kept) == len(follow) else frozenset()
        return run.plan("INCREMENTAL", self.lost, lambda: self._alternatives(space), self.task.own_point, chosen=chosen)

    def _alone(self, space: Space, pack: str, followed: Followed, best: Extractor) -> Start:
        """A pack's own choices, beside the free ones."""

        def takes(plan: Sequence[Planned]) -> bool:
            owed = (owed_to(space.memo, p.group, p.choice.expression) for p in plan if p.choice.expression is not None)
            return best.prefers(pack, plan) and _alone_with(pack).issuperset(owed)

        return Start(lambda: self._own(space, pack, followed), takes, f"{pack} alone")

    def _own(self, space: Space, pack: str, followed: Followed) -> Extractor:
        """The choices of a pack with `delta` or `recompute` underneath, preferred to these."""
        return self.task.extractor(space, pack, packs=_alone_with(pack), followed=followed)

    def _share(self, run: Assembly, extractor: Extractor, groups: Iterable[int]) -> None:
        """Writes what the plans of groups read several times, as far as something computes them."""
        demands = [group for group in groups if extractor.best(group) is not None]
        if demands:
            share(extractor, demands, 0)
            run.once(demands)

    def _alternatives(self, space: Space) -> list[Alternative]:
        """The best plan of each pack, with `delta` or `recompute` underneath; of `recompute`, all from the sources."""

        def best(pack: str) -> ExplainedPlan | None:
            if pack == RECOMPUTE:
                return self._all_anew()
            return self._change(space, lambda _, followed: self._own(space, pack, followed))

        plans = {pack: best(pack) for pack in self.task.able(space)}
        return [
            Alternative(pack, plan.methods, (plan.estimated,))
            for pack, plan in plans.items()
            if plan is not None and pack in plan.methods
        ]


def _alone_with(pack: str) -> frozenset[str]:
    return frozenset({CORE, pack, DELTAS, RECOMPUTE})


def _from_the_past(plan: ExplainedPlan) -> bool:
    """True if a plan's content comes from changes, states or the last answer, not from whole sources alone."""
    past = {"changes", "state"} if RECOMPUTE in plan.methods else {"changes", "state", "result"}
    return bool(read_by(plan.steps) & past)
