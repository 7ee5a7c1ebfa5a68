"""Choices that go on from others are those that are found from nothing."""

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


@pytest.mark.parametrize("points", [1, 3])
@pytest.mark.parametrize("name", sorted(VIEWS)[::12])
def test_only_what_reads_the_difference_is_looked_at_again(name: str, points: int) -> None:
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
            assert choice is None or other is None or choice.cost == pytest.approx(other.cost, rel=1e-12)
        return plain(self, given, near)

    plain = SettlingProblem.settle
    with mock.patch.object(SettlingProblem, "settle", settle):
        plan_run(over(parse_query(SOURCES + VIEWS[name]), points, PlannerSettings()))
    assert compared or points == 1, "a single run may have nothing to write before it is planned"
