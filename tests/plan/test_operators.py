"""Each operator of queries has a name that all who read names know, and a meaning."""

from __future__ import annotations

from typing import get_args

from tests.model import semantics
from tidemill.plan.kinds import OPERATOR_NAMES
from tidemill.plan.ops import QueryOp
from tidemill.text.printer import name_of


def test_the_names_are_those_of_the_operators() -> None:
    assert {name_of(operator) for operator in get_args(QueryOp)} == OPERATOR_NAMES


def test_each_operator_has_a_meaning_in_the_model() -> None:
    assert semantics.known() >= OPERATOR_NAMES
