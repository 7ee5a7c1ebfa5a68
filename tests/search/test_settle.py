"""Choices that go on from others are those that are found from nothing; plans where the last point counts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest import mock

import pytest

from benchmarks.planning import over
from tests.search.test_cases import SOURCES, VIEWS
from tidemill.search.choose.settle import Place, SettledChoices, SettlingProblem, WrittenAt
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query


@pytest.mark.parametrize(("points", "objective"), [(1, "priced"), (3, "priced"), (3, "last")])
@pytest.mark.parametrize("name", sorted(VIEWS)[::12])
def test_only_what_reads_the_difference_is_looked_at_again(name: str, points: int, objective: str) -> None:
    compared = 0

    def settle(
        self: SettlingProblem, given: Mapping[Place, WrittenAt], near: Sequence[SettledChoices] = ()
    ) -> SettledChoices:
        nonlocal compared
        found, expected = plain(self, given, near), SettledChoices(self, given)
        for place in [(group, run) for group in self.ways_of for run in range(points)] if near else []:
            choice, other = found.get(place), expected.get(place)
            compared += 1
            assert (choice is None) == (other is None)
            if choice is None or other is None:
                continue
            if objective == "last":
                assert choice.cost == other.cost
            else:
                assert choice.cost == pytest.approx(other.cost, rel=1e-12)
        return plain(self, given, near)

    plain = SettlingProblem.settle
    with mock.patch.object(SettlingProblem, "settle", settle):
        plan_run(over(parse_query(SOURCES + VIEWS[name]), points, PlannerSettings(objective=objective)))
    assert compared or points == 1, "a single run may have nothing to write before it is planned"


@pytest.mark.parametrize("name", sorted(VIEWS)[::12])
def test_no_plan_by_price_is_better_where_the_last_point_counts_first(name: str) -> None:
    query = parse_query(SOURCES + VIEWS[name])
    plans = [plan_run(over(query, 3, PlannerSettings(objective=objective))) for objective in ("last", "priced")]
    last, priced = ([round(cost, 6) for cost in reversed(plan.explanation.costs)] for plan in plans)
    assert last <= priced
