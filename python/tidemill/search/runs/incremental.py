"""Runs that compute the change of the view and of the states that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.sharing import Start, share
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.past import Methods
from tidemill.search.contract.run_kinds import GRADUAL
from tidemill.search.contract.run_plan import COST, read_by, states_needed
from tidemill.search.keep.likely import circumstances, tries_methods
from tidemill.search.runs.anew import full
from tidemill.search.runs.assembly import Assembly
from tidemill.search.runs.explanation import Alternative, ExplainedPlan
from tidemill.search.runs.inspect import unable
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import RECOMPUTE, alone_with, base
from tidemill.search.space.space import NONE_FOLLOWED, Followed, Kept, Space


class IncrementalPlanner:
    """Plans a run that may be incremental.

    Attributes:
        anew: names of states that it makes anew.
        lost: the reason if states are lost, else None.
        chosen: as in `RunPlan`.
        states: names of the states that it follows.
    """

    def __init__(self, task: PlanningTask) -> None:
        self.task = task
        self.request = task.request
        self.anew = task.request.lost
        self.lost: str | None = None
        self.chosen = task.request.chosen
        self.states = task.request.states

    def plan(self) -> ExplainedPlan:
        """The cheapest incremental plan, or a full one if the policy allows it and it is cheaper.

        The difference of two full computations of the whole view does not count as incremental. If the cheapest plan
        amounts to that, the cheapest plan without `recompute` represents the incremental side.
        """
        space = self.task.space(self.request.steps, self.task.kept())
        if self.request.policy in GRADUAL and space.changed and not self.request.lost:
            self._check_rules(space)
        self._look_for_states(space)
        plan = self._cheapest_change(space)
        if plan is None:
            return self._without_change(space)
        if useless := self._useless(plan):
            self.states -= useless
            words = f"given up: {', '.join(sorted(useless))}; neither this run nor a likely one reads them"
            space.memo.emit("dropped", "", 0, words)
            plan = self._cheapest_change(space) or plan
        if self.request.policy != "AUTO" or self.request.settings.prefer is not None:
            return self._beside_full(plan)
        if not _from_the_past(plan):
            plan = self._change(space, lambda _, followed: self.task.without_recompute(space, followed))
            if plan is None:
                return self._without_change(space)
        return self._cheaper(self._by_methods(space, plan))

    def _without_change(self, space: Space) -> ExplainedPlan:
        """A full plan where nothing else computes the change: without states that did not pay, or without any."""
        took = None if self.chosen is None or self.lost is not None else self.chosen.made_for.unpaid
        if took is None:
            return full(self.task, self.lost or self._why_not(space))
        plan = full(self.task, COST, *self._kept)
        found = self.request.past.compare(plan.estimated, took, self.task.model.noise)
        return plan.weighed(replace(found, way="FULL", incremental=took), self.task.model)

    def _cheapest_change(self, space: Space) -> ExplainedPlan | None:
        """The cheapest plan of the view's change by the packs that the request allows; None if nothing computes it."""
        return self._change(
            space,
            lambda prefer, followed: self.task.extractor(space, prefer, followed=followed),
            self.task.seeds(space),
        )

    def _useless(self, plan: ExplainedPlan) -> frozenset[str]:
        """The followed states that neither this plan reads nor that of a likely run.

        A run with other packs than those that the states were chosen for does not judge them, nor does one that runs
        without output have prepared: theirs are other plans.
        """
        judges = self.chosen is not None and self.chosen.packs == self.request.packs
        if self.anew or self.request.between or not judges or not (unread := self.states - states_needed(plan.steps)):
            return frozenset()
        return unread & self.task.unread(self.states)

    def _all_anew(self) -> ExplainedPlan:
        """A full plan that makes the existing states; it gives the cost of a full run without a choice of states."""
        return full(self.task, COST, *self._kept)

    @property
    def _kept(self) -> tuple[frozenset[str] | None, Choice | None]:
        """The states to keep after the run, and their choice; None if nobody has chosen them."""
        return (None, None) if self.chosen is None else (self.states | self.anew, self.chosen)

    def _by_methods(self, space: Space, plan: ExplainedPlan) -> dict[Methods, ExplainedPlan]:
        """The plans of the change by their methods, this one first: that of each pack by itself too, once enough runs
        were measured to compare them by what they took."""
        found = {plan.methods: plan}
        if not tries_methods(self.request) or self.anew or not self.request.past.judges(plan.estimated):
            return found
        for other in self._own_plans(space).values():
            if other is not None and other.states == plan.states and _from_the_past(other):
                known = found.get(other.methods)
                if known is None or (known is not plan and other.estimated < known.estimated):
                    found[other.methods] = other
        return found

    def _cheaper(self, plans: Mapping[Methods, ExplainedPlan]) -> ExplainedPlan:
        """The cheapest of incremental plans and the full one, by their estimates and by what earlier runs took; the
        first of the incremental ones is the cheapest by estimate.

        States that do not pay are given up, by a full run without them. Methods that may be cheaper than they look are
        tried.
        """
        whole, first = self._all_anew(), next(iter(plans.values()))
        past, noise = self.request.past, self.task.model.noise
        bare = full(self.task, self.lost or COST, frozenset()) if first.states and not self.request.between else None
        rivals = tuple((methods, plan.estimated) for methods, plan in plans.items())
        made = past.decide(whole.estimated, rivals, noise, None if bare is None else bare.estimated)
        plan = plans[made.known]
        if bare is not None and made.unpaid:
            plan.explanation.space.memo.emit("dropped", "", 0, "all states: full runs without them cost much less")
            worth = self.request.chosen.worth if self.request.chosen is not None else {}
            took = past.by(made.known).compare(bare.estimated, plan.estimated, noise)
            bare = replace(bare, chosen=Choice(replace(circumstances(self.request), unpaid=took.incremental), worth))
            return bare.weighed(replace(took, way="FULL"), self.task.model)
        found = made.found
        costs = sorted((("FULL", found.full), ("INCREMENTAL", found.incremental)), key=lambda c: c[0] != found.way)
        told = " rather than ".join(f"{way} {cost:.3f} ms" for way, cost in costs)
        plan.explanation.space.memo.emit("best", "", 0, told)
        compared = whole.estimated, plan.estimated
        if made.taken is None:
            explanation = replace(whole.explanation, rivals=plan.explanation.rivals)
            plan = replace(whole, reason=self.lost or COST, explanation=explanation)
        elif made.taken != first.methods:
            plan = plans[made.taken]
            plan.explanation.space.memo.emit("best", "", 0, f"by what runs took, or for a try: {' '.join(made.taken)}")
        plan = replace(
            plan,
            compared=compared,
            rivals=rivals,
            stateless=None if bare is None else bare.estimated,
        )
        return plan.weighed(found, self.task.model)

    def _beside_full(self, plan: ExplainedPlan) -> ExplainedPlan:
        """A plan without alternative; if full runs were measured, it records the likely cost of one."""
        past = self.request.past
        if not past.of({"FULL"}):
            return plan
        estimates = self._all_anew().estimated, plan.estimated
        found = past.compare(*estimates, self.task.model.noise)
        return replace(plan, compared=estimates).weighed(found, self.task.model)

    def _look_for_states(self, space: Space) -> None:
        """Finds the lost states, and those to make anew.

        Besides states that cannot be read, states without a candidate of their name are lost: the query's text or the
        naming of states has changed. So are states that an earlier run gave up or did not make because it had fewer
        packs than this one. The states now worth keeping are made in their place. Where states were chosen for other
        circumstances, they are chosen anew: what pays is made, and what does not is followed no longer.
        """
        request = self.request
        self.anew, missing = request.lost, request.lost
        unknown = request.states - {c.name for c in space.candidates}
        given_up = request.chosen is not None and not request.packs <= request.chosen.packs
        if unknown or not self.task.holds:
            wanted = self.task.worth_keeping(request.states - unknown)
            new = wanted - request.states
            self.anew |= new
            missing |= unknown | (new if given_up else frozenset())
            if not given_up:
                self.states &= wanted
                self._tell(space, new)
            self.chosen = self.task.choice
        self.lost = f"STATE_LOST: {', '.join(sorted(missing))}" if missing else None

    def _tell(self, space: Space, new: frozenset[str]) -> None:
        """Tells readers of the memo's events that the states were chosen anew, if others are kept now."""
        dropped = self.request.states - self.states
        if new or dropped:
            made, gone = (", ".join(sorted(names)) or "none" for names in (new, dropped))
            space.memo.emit("dropped", "", 0, f"states chosen anew; made: {made}; no longer followed: {gone}")

    def _check_rules(self, space: Space) -> None:
        """Raises an error if nothing but `recompute` computes the change of an operator, even with every state kept.

        Which states are kept is decided by cost, and a source without history is not the operator's fault.

        Raises:
            TidemillError: TIDEMILL_NOT_INCREMENTAL.
        """
        if self._computes(space):
            return
        every = self.task.space([self._as_if_kept()], Kept(None))
        if not self._computes(every):
            operator, _, reason = unable(every, self.task.without_recompute(every), self._packs).partition(": ")
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", {"operator": operator, "reason": reason})
        if self.request.budget is not None and not self._computes(self._with_states(space)):
            raise TidemillError("TIDEMILL_NOT_INCREMENTAL", self._without_room(space))

    def _with_states(self, space: Space) -> Space:
        """The space as if every source could be read, with the states that are there."""
        gone = any(source.changed and not source.old_readable for source in self.request.sources.values())
        return self.task.space([self._as_if_kept()], self.task.kept()) if gone else space

    def _without_room(self, space: Space) -> dict[str, str]:
        """The operator whose change nothing computes within the budget, and the bytes of the states that would."""
        self.task.worth_keeping(self.request.states)
        missed = {name: w for name, w in self.task.choice.worth.items() if name not in self.request.states}
        needed = [name for name, w in missed.items() if w.gain is None] or list(missed)
        operator = unable(space, self.task.without_recompute(space), self._packs).partition(": ")[0]
        least = min((missed[name].bytes for name in needed), default=None)
        held = "states" if least is None else f"a state of about {least:.0f} bytes"
        return {
            "operator": operator,
            "reason": f"its change needs {held}, which STATE BUDGET of {self.request.budget} bytes does not hold",
        }

    @property
    def _packs(self) -> frozenset[str]:
        return self.request.settings.packs

    def _computes(self, space: Space) -> bool:
        """True if rules other than `recompute` compute the view's change."""
        return self.task.without_recompute(space).best(space.change) is not None

    def _as_if_kept(self) -> dict[int, SourceChange]:
        """The sources, each with a readable old snapshot."""
        return {number: replace(source, old_readable=True) for number, source in self.request.sources.items()}

    def _why_not(self, space: Space) -> str:
        """The reason why only `recompute` computes the view's change."""
        gone = [n for n, source in self.request.sources.items() if source.changed and not source.old_readable]
        kept = Kept(dict.fromkeys(self.request.states, 0))
        if gone and self._computes(self.task.space([self._as_if_kept()], kept)):
            names = ", ".join(sorted({self.request.query.sources[n].name for n in gone}))
            return f"HISTORY_GONE: what {names} held at the last run cannot be read any more"
        return "NOT_INCREMENTAL: " + unable(space, self.task.without_recompute(space), self._packs)

    def _change(
        self, space: Space, make: Callable[[str | None, Followed], Extractor], seeds: Sequence[str] = ()
    ) -> ExplainedPlan | None:
        """The plan of the view's change, and of the states that follow it; None if nothing computes it.

        `make`: choices that prefer a pack, with some groups written in any case; `seeds`: see `cheapest`.
        """
        # States that are made anew are written before the next group is planned, which may depend on them.
        followed = NONE_FOLLOWED if self.anew else space.followed(self.states)
        extractor = make(None, followed)
        demands = [group for group in (*followed.written, space.change) if extractor.best(group) is not None]
        if not self.anew:
            best = extractor
            packs = [pack for pack in seeds if pack != RECOMPUTE]
            # A plan that prefers `recompute` may use more than the others, so no other plan follows its choices.
            others = [
                Start(lambda: make(RECOMPUTE, followed), name=f"{RECOMPUTE} preferred"),
                Start(lambda: self.task.without_recompute(space, followed), name=f"without {RECOMPUTE}"),
                *(self.task.alone(space, pack, best, partial(self._own, space, pack, followed)) for pack in packs),
            ]
            extractor = self.task.cheapest(
                lambda prefer: make(prefer, followed), packs, demands, 0, others if seeds else []
            ).extractor
        run = self.task.assembly(space, extractor)
        bases = {c: base(space.memo, c, space.now) for c in space.candidates if c.name in self.anew}
        self._share(run, extractor, bases.values())
        made = [run.base(c) for c in bases]
        if space.changed and extractor.best(space.change) is None:
            return None
        if self.anew:
            self._share(run, extractor, (*space.followed(self.states).written, space.change))
        run.once(demands, lambda group: [run.advance(c) for c in space.named(followed.written[group])])
        follow = [c for c in space.candidates if c.name in self.states]
        kept = [c for c in follow if run.advance(c)]
        run.delta(space.change)
        self.task.compact(run, kept)
        # A state that cannot follow this change, or be made, is given up. A later run with other packs makes it anew.
        chosen = self.chosen if all(made) and len(kept) == len(follow) else Choice()
        return run.plan("INCREMENTAL", self.lost, lambda: self._alternatives(space), self.task.own_point, chosen=chosen)

    def _own(self, space: Space, pack: str, followed: Followed) -> Extractor:
        """The choices with a preferred pack, on top of `delta` or `recompute`."""
        return self.task.extractor(space, pack, packs=alone_with(pack), followed=followed)

    def _share(self, run: Assembly, extractor: Extractor, groups: Iterable[int]) -> None:
        """Writes what the plans of these groups read several times, for all groups that something computes."""
        demands = [group for group in groups if extractor.best(group) is not None]
        if demands:
            share(extractor, demands, 0)
            run.once(demands)

    def _alternatives(self, space: Space) -> list[Alternative]:
        """The best plan of each pack, on top of `delta` or `recompute`; that of `recompute` reads the sources only."""
        own = self._own_plans(space)
        plans = {pack: self._all_anew() if pack == RECOMPUTE else own[pack] for pack in self.task.able(space)}
        return [
            Alternative(pack, plan.methods, (plan.estimated,))
            for pack, plan in plans.items()
            if plan is not None and pack in plan.methods
        ]

    def _own_plans(self, space: Space) -> dict[str, ExplainedPlan | None]:
        """The best plan of each pack but `recompute` that found something; None if it has none."""

        def best(pack: str) -> ExplainedPlan | None:
            return self._change(space, lambda _, followed: self._own(space, pack, followed))

        return {pack: best(pack) for pack in self.task.able(space) if pack != RECOMPUTE}


def _from_the_past(plan: ExplainedPlan) -> bool:
    """True if a plan's content comes from changes, states or the last result, not from whole sources alone."""
    past = {"changes", "state"} if RECOMPUTE in plan.methods else {"changes", "state", "result"}
    return bool(read_by(plan.steps) & past)
