"""Likely runs: those with output of the last cycles, at the prices of their points; the states that are chosen then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.search.test_keeping import QUERIES, ROWS, SOURCES, first_run
from tidemill.search.contract.cycles import KINDS, Cycle, Cycles, Outputs
from tidemill.search.contract.request import PlanRequest
from tidemill.search.keep.likely import likely_changes
from tidemill.search.keep.wanted import wanted_states
from tidemill.search.runs.task import PlanningTask

ORDERS, LINES, CUSTOMERS = ROWS
MANY = 20_000.0


def asked(query: str, outputs: tuple[Outputs[int], ...], objective: str = "priced") -> PlanRequest:
    """The first run of a view after four cycles of such runs with output."""
    request = first_run(SOURCES + QUERIES[query], ROWS, objective)
    return replace(request, cycles=tuple(Cycle(run, outputs) for run in range(1, 5)))


def output(price: float, rows: Mapping[int, float], *, runs: int = 1, last: bool = False) -> Outputs[int]:
    """Runs to which so many inserts, and as many deletes, have come in all."""
    return Outputs(price, {n: (rows.get(n, 0.0), rows.get(n, 0.0)) for n in ROWS}, runs, last)


def cases(request: PlanRequest) -> list[tuple[float, dict[int, float]]]:
    """Weights of the likely runs, each with the rows inserted into the sources that change."""
    return [
        (round(case.weight, 6), {n: (c.inserts or 0.0) / case.grown for n, c in case.changes.items() if c.changed})
        for case in likely_changes(request)
    ]


def test_runs_weigh_what_their_work_is_priced() -> None:
    early, late = output(0.25, {LINES: 3 * MANY}, runs=3), output(0.5, {ORDERS: MANY, LINES: MANY}, last=True)
    assert cases(asked("with lines", (early, late))) == [
        (0.6, {LINES: MANY}),
        (0.4, {ORDERS: MANY, LINES: MANY}),
    ]
    free = asked("with lines", (output(0.0, {LINES: MANY}), output(0.0, {ORDERS: MANY}, last=True)))
    assert [weight for weight, _ in cases(free)] == [0.5, 0.5]
    last = asked("with lines", (early, late), objective="last")
    assert [(weight, *changes) for weight, changes in cases(last)] == [(1, ORDERS, LINES), (0, LINES)]


def test_what_is_expected_of_a_cycle_is_shared_among_its_runs() -> None:
    """As what came was; evenly, where nothing came."""
    outputs = output(1.0, {LINES: 2 * MANY}, runs=2), output(1.0, {ORDERS: MANY, LINES: 2 * MANY}, last=True)
    request = replace(asked("with lines", outputs), cycle={LINES: (400.0, 100.0), CUSTOMERS: (900.0, 0.0)})
    assert cases(request) == [
        (0.666667, {LINES: 100.0, CUSTOMERS: 300.0}),
        (0.333333, {ORDERS: MANY, LINES: 200.0, CUSTOMERS: 300.0}),
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_cheap_points_with_output_work_for_dear_ones(query: str) -> None:
    """A state of orders helps changes of line items: it is kept where its upkeep falls on the cheaper point."""

    def kept(cheap: int, dear: int) -> frozenset[str]:
        outputs = output(0.01, {cheap: MANY}), output(1.0, {dear: MANY}, last=True)
        return wanted_states(PlanningTask(asked(query, outputs))).names

    assert kept(ORDERS, LINES) > kept(LINES, ORDERS)


def test_runs_of_a_cycle_are_counted_by_their_kinds() -> None:
    """A point may fire any number of times in a cycle, with other sources changed each time."""
    cycles = Cycles()
    for number in range(100):
        names = [f"t{n}" for n in range(6) if number >> n & 1]
        cycles = cycles.then(number, dict.fromkeys(names, (1.0, 0.0)), last=False, price=0.5)
    cycles = cycles.then(100, {"t0": (0.0, 2.0)}, last=True)
    (cycle,) = cycles.ended
    assert len(cycle.outputs) == KINDS + 1
    assert [sum(s.runs for s in cycle.outputs if s.priced_like(one)) for one in cycle.outputs[-2:]] == [100, 1]
    assert cycle.rows == {f"t{n}": (sum(i >> n & 1 for i in range(100)), 2.0 * (n == 0)) for n in range(6)}
    assert Cycles.from_json(cycles.to_json()) == cycles


def test_cycles_of_earlier_versions_count_as_one_run_each() -> None:
    rows = {"t": [5.0, 1.0], "u": None}
    told = {"ended": [{"run": 3, "rows": rows}], "present": {"t": [1.0, 0.0]}}
    assert Cycles.from_json(told) == Cycles((Cycle(3, (Outputs(1.0, {"t": (5.0, 1.0), "u": None}),)),))
