"""The decorator of rules: which relations a rule is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.plan.kinds import JOIN_KINDS
from tidemill.plan.ops import Filter, Join
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


def test_a_rule_matches_its_operators_where_their_fields_have_the_values_it_names() -> None:
    @rule(Join, kind="left")
    def of_one(m: Match[Join]) -> Iterator[Result]:
        yield from ()

    @rule(Join, kind=JOIN_KINDS - {"inner"})
    def of_some(m: Match[Join]) -> Iterator[Result]:
        yield from ()

    @rule(Join, Filter)
    def of_all(m: Match[Join | Filter]) -> Iterator[Result]:
        yield from ()

    ops = (Join("left", ()), Join("anti", ()), Join("inner", ()), Filter(()))
    assert [[r.matches(op) for op in ops] for r in (of_one, of_some, of_all)] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, True],
    ]


def test_a_field_that_an_operator_does_not_have_is_an_error() -> None:
    declare: Any = rule
    with pytest.raises(TypeError, match="Filter has no field kind"):
        declare(Join, Filter, kind="left")
