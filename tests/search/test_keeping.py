"""Which states are kept: none better among all there are to choose from; what it costs to bring them up to date."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from textwrap import indent

import pytest

from cost_model.default import MODEL
from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.explain.document import document
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Scan
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.search.choose.extract import Extractor
from tidemill.search.contract.choice import Choice, Circumstances
from tidemill.search.contract.request import PlanRequest, UpcomingPoint
from tidemill.search.contract.stored import Piece
from tidemill.search.keep import keeping, wanted
from tidemill.search.keep.programme import NOTHING, States
from tidemill.search.keep.wanted import Question, asked
from tidemill.search.keep.weighing import Room, Weighed, run_cost
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.runs.task import PlanningTask
from tidemill.search.service.planner import plan_run
from tidemill.search.space.seed import RECOMPUTE
from tidemill.search.space.space import Kept, SpaceRequest, explore_space, normal_query
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.tvr.form import SNAPSHOT, at

ROWS = {0: 1_500_000, 1: 6_000_000, 2: 150_000}
SOURCES = f"""\
source 0 orders [k: long, c: long, d: long] rows={ROWS[0]}
source 1 lines [k: long, x: long, y: long] rows={ROWS[1]}
source 2 customers [c: long, n: string] rows={ROWS[2]}
"""


def over(operator: str, *inputs: str) -> str:
    return "\n".join([operator, *(indent(i, "  ") for i in inputs)])


ORDERS = over("filter [(#2 < 3), (#1 < 3)]", "scan 0 [#0 := k, #1 := c, #2 := d]")
LINES = over("filter [(#5 > 4)]", "scan 1 [#3 := k, #4 := x, #5 := y]")
CUSTOMERS = "scan 2 [#6 := c, #7 := n]"
ALL = "join inner [(#0 = #3), (#1 = #6)]"
GROUPS = "aggregate keys=[#9 := #0] calls=[#10 := sum(#4)]"
QUERIES = {
    "with lines": over(
        GROUPS.replace("sum(#4)", "count(*)").replace("#0", "#2"), over("join semi [(#0 = #3)]", ORDERS, LINES)
    ),
    "some customers": over(GROUPS, over(ALL, ORDERS, LINES, over("filter [(#7 = 3)]", CUSTOMERS))),
}
GAP = 1.05
"""Largest cost of what the search finds without trying all sets, as a share of the best."""
UNHURRIED = PlannerSettings(time_limit=60.0)


def first_run(text: str, rows: Mapping[int, int], objective: str = "priced") -> PlanRequest:
    """The first run of a view; `text` with its sources, `rows`: of each."""
    parsed = normal_query(parse_query(text))
    sources = {n: SourceChange(changed=True, old_readable=True, rows=rows[n]) for n in parsed.sources}
    settings = replace(UNHURRIED, objective=objective)
    return PlanRequest(parsed, "AUTO", sources, frozenset(), first=True, full_reason=None, settings=settings)


def question(request: PlanRequest) -> Question:
    """What the choice of states is asked for a run."""
    found = asked(PlanningTask(request))
    assert found is not None
    return found


class Costs:
    """Costs of sets of states, each found once; the objective has no part in them."""

    def __init__(self, of: Question) -> None:
        self.question = of
        self.names = sorted({c.name for c in of.scenarios[0].space.candidates})
        self._known: dict[States, tuple[float, float]] = {}

    def parts(self, kept: Collection[str]) -> tuple[float, float]:
        """Average cost of a run that follows these states and reads no others, and the cost of making them."""
        some, prices = frozenset(kept), self.question.prices
        if some not in self._known:
            run = sum(s.weight * run_cost(s, prices, some) for s in self.question.scenarios)
            self._known[some] = run, prices.filling(some)
        return self._known[some]

    def __call__(self, kept: Collection[str]) -> float:
        """The cost of such a run with its part of the cost of making them."""
        run, making = self.parts(kept)
        return run + making / RUNS_TO_EARN

    @property
    def every(self) -> list[States]:
        return [frozenset(some) for n in range(len(self.names) + 1) for some in combinations(self.names, n)]

    def room(self, budget: float | None) -> Room:
        return Room(self.question.room.sizes, budget)

    def fitting(self, room: Room) -> list[States]:
        return [some for some in self.every if room.fits(some)]


@cache
def asked_of(query: str, objective: str = "priced") -> Question:
    return question(first_run(SOURCES + query, ROWS, objective))


@cache
def costs(query: str) -> Costs:
    return Costs(asked_of(query))


@cache
def chosen(query: str, objective: str = "priced") -> Weighed:
    """The states that are kept without a budget."""
    return chosen_within(query, asked_of(query, objective).room, objective)


def within(query: str, share: float, objective: str = "priced") -> Room:
    """Room for this share of the bytes of the states that are kept without a budget."""
    room = asked_of(query, objective).room
    return replace(room, budget=share * room.taken(chosen(query, objective).names))


def chosen_within(query: str, room: Room, objective: str = "priced") -> Weighed:
    """The states that are kept in this room."""
    of = asked_of(query, objective)
    return keeping.worth_keeping(of.scenarios, of.prices, room, Budget(seconds=UNHURRIED.time_limit))


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_no_other_states_are_better(query: str) -> None:
    every, of = costs(query).every, costs(query)
    assert chosen(query).names == min(every, key=of)
    assert chosen(query, "last").names == min(every, key=of.parts)
    for objective in ("priced", "last"):
        made = {s.name for s in plan_run(first_run(SOURCES + query, ROWS, objective)).states}
        assert set() != made <= chosen(query, objective).names


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("all_tried", [True, False])
def test_no_other_states_within_the_budget_are_better(
    query: str, share: float, all_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the budget holds only a part of what would be kept without it. With more candidates than all of whose
    sets are tried, prices of a byte and single steps find a set that is nearly as good."""
    room, of = within(query, share), costs(query)
    if not all_tried:
        monkeypatch.setattr(keeping, "FEW", 0)
        monkeypatch.setattr(keeping, "FEW_WITHIN", 0)
    found = chosen_within(query, room)
    assert room.fits(found.names)
    assert of(found.names) <= (1.0 if all_tried else GAP) * min(map(of, of.fitting(room))) + 1e-6
    curve = [cost for _, cost in found.curve]
    assert curve == sorted(curve, reverse=True)
    assert all(cost == pytest.approx(of(NOTHING)) for taken, cost in found.curve if not taken)


def test_a_budget_where_the_last_point_counts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices of a byte are paid by likely runs: the set is nearly as good for them as the best that fits."""
    query = QUERIES["with lines"]
    room, of = within(query, 0.3, "last"), costs(query)
    monkeypatch.setattr(keeping, "FEW", 0)
    monkeypatch.setattr(keeping, "FEW_WITHIN", 0)
    found = chosen_within(query, room, "last")
    assert room.fits(found.names)
    assert of.parts(found.names)[0] <= GAP * min(of.parts(some)[0] for some in of.fitting(room))
    curve = [cost for _, cost in found.curve]
    assert curve == sorted(curve, reverse=True)
    assert all(cost < 1e9 for cost in curve)


def request_of(text: str, *, kept: Collection[str] | None = None, changed: Collection[int] = (0, 1)) -> PlanRequest:
    """The first run of a view; or the next one after few changes, where these states were kept."""
    parsed = parse_query(SOURCES + text)
    sources = {
        n: SourceChange(kept is None or n in changed, True, rows=ROWS[n], inserts=500, deletes=500, direct=True)
        for n in parsed.sources
    }
    names = frozenset(kept or ())
    pieces = {name: [Piece(1, 1_000_000, 1_000_000, 0)] for name in names}
    first = kept is None
    chosen = None if first else Choice(Circumstances(UNHURRIED.packs))
    return PlanRequest(parsed, "INCREMENTAL", sources, names, first, None, UNHURRIED, pieces, rows=6e6, chosen=chosen)


def run_of(text: str, *, kept: Collection[str] | None = None, changed: Collection[int] = (0, 1)) -> ExplainedPlan:
    return plan_run(request_of(text, kept=kept, changed=changed))


def every_state(text: str) -> frozenset[str]:
    return frozenset(c.name for c in run_of(text).explanation.space.candidates)


def test_a_state_that_no_likely_run_reads_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it seems to save: its change is a part of the view's change, which runs share without the state."""
    text = QUERIES["some customers"]
    every = every_state(text)
    monkeypatch.setattr(wanted, "worth_keeping", lambda *_: Weighed(every, {}, ()))
    filled = run_of(text)
    made = frozenset(s.name for s in filled.states)
    assert made < every
    task = PlanningTask(request_of(text))
    assert task.unread(every)
    assert not task.unread(made)


def test_a_state_that_no_run_reads_is_given_up() -> None:
    """As earlier versions have kept it: no step writes it, and what of it the view's change needs is computed."""
    text = QUERIES["some customers"]
    every = every_state(text)
    unread = PlanningTask(request_of(text)).unread(every)
    found = run_of(text, kept=every)
    left = {s.name for s in found.states}
    assert left < every
    assert every - left <= unread
    assert not {step.state for step in found.steps} & (every - left)
    assert found.chosen == Choice(Circumstances(UNHURRIED.packs))  # the others are as they were chosen


def test_a_state_that_likely_runs_read_stays_while_this_one_does_not() -> None:
    text = QUERIES["some customers"]
    made = {s.name for s in run_of(text).states}
    assert made
    found = run_of(text, kept=made, changed=(2,))
    assert {s.name for s in found.states} == made


def early_run_of(text: str, kept: Collection[str], settings: PlannerSettings = UNHURRIED) -> ExplainedPlan:
    """A run without output after changes of orders and lines, nearly free, before one with output after as many."""
    request = request_of(text, kept=kept)
    due = UpcomingPoint(1.0, True, request.sources, 2)
    return plan_run(replace(request, settings=settings, price=0.01, ahead=(due,)))


def test_states_of_what_does_not_change_leave_early_work_to_others() -> None:
    """Customers stay as they are: their state needs no step, at any point, and the due run does not wait for one."""
    text = QUERIES["some customers"]
    space = run_of(text).explanation.space
    still = {c.name for c in space.candidates if space.memo.tvrs[c.tvr].props.sources == {2}}
    follow = {s.name for s in run_of(text).states} - still
    alone, both = (early_run_of(text, kept) for kept in (follow, follow | still))
    written = [{step.state for step in found.steps} for found in (alone, both)]
    assert still
    assert set() != written[0] == written[1] <= follow
    assert [len(found.explanation.points) for found in (alone, both)] == [2, 2], "the due run is planned with it"


def test_nothing_is_done_early_where_the_due_run_has_to_compute_all_anew() -> None:
    only = replace(UNHURRIED, packs=frozenset({RECOMPUTE}))
    found = early_run_of(QUERIES["some customers"], (), only)
    shown = document(found, {})
    assert (found.steps, found.estimated) == ((), 0.0)
    assert "The run does nothing: no early work pays." in shown["summary"]
    assert [point["steps"] for point in shown["points"]] == [[]]


def test_a_state_is_brought_up_to_date_for_what_has_changed() -> None:
    """Of a million rows and a thousand changed ones, those alone are grouped."""
    parsed = normal_query(parse_query(SOURCES + over(ALL, ORDERS, LINES, CUSTOMERS)))
    change = SourceChange(changed=True, old_readable=True, rows=6e6, inserts=500, deletes=500)
    found = explore_space(
        SpaceRequest(parsed, [dict.fromkeys(parsed.sources, change)], 1, Kept(None)), load_rules(), MODEL, Budget()
    )
    extractor = Extractor(found.memo, MODEL, found.facts, lambda _g, e: not isinstance(e.op, Scan))
    rows = [c for c in found.candidates if c.partial is None and (found.facts.size(c.tvr, 0) or 0.0) > 1e6]
    assert rows
    for c in rows:
        size, columns = found.facts.size(c.tvr, 0) or 0.0, len(found.memo.tvrs[c.tvr].props.columns)
        new = found.memo.group(found.memo.form(c.tvr, at(SNAPSHOT, found.now)))
        (merged,) = [e.inputs[0] for e in new.expressions if e.rule == "merge_delta"]
        assert extractor.cost(merged) < MODEL._grouping(size, 0, columns)
