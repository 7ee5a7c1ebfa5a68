"""Fresh columns, and expressions over rows that Spark observes or writes, for the runtime's own plans."""

from __future__ import annotations

import itertools

from tidemill.plan.expr import ONE, ZERO, Col, Expr, Lit, fn

FIRST_OWN_COLUMN = 1_000_000
"""Far above the column ids of any query document, and of those that planning adds."""
ROWS = ("rows", fn("tidemill_observed_sum", ONE))
"""The metric `rows` of `observe`: the number of rows."""


class Ids:
    """Hands out fresh column ids for one plan."""

    def __init__(self) -> None:
        self._next = itertools.count(FIRST_OWN_COLUMN)

    def fresh(self, n: int) -> list[int]:
        """Returns `n` new ids."""
        return [next(self._next) for _ in range(n)]

    def one(self) -> int:
        """Returns one new id."""
        return next(self._next)


def partition_text(column: int) -> Expr:
    """Returns the value of a partition column as the text that names its folder; NULL stays NULL."""
    return fn("tidemill_partition_text", Col(column))


def is_negative(column: int) -> Expr:
    """Returns the condition that a column of counts is below zero."""
    return fn("<", Col(column), ZERO)


def is_positive(column: int) -> Expr:
    """Returns the condition that a column of counts is above zero."""
    return fn(">", Col(column), ZERO)


def above_zero(column: int) -> Expr:
    """Returns a signed count if it is positive, else 0."""
    return fn("if", is_positive(column), Col(column), ZERO)


def below_zero(column: int) -> Expr:
    """Returns the size of a signed count if it is negative, else 0."""
    return fn("if", is_negative(column), fn("negative", Col(column)), ZERO)


def observed_sum(value: Expr) -> Expr:
    """Returns a metric of `observe`: the sum of BIGINTs, which counts a repeated task once."""
    return fn("tidemill_observed_sum", value)


def observed_values(value: Expr, most: int) -> Expr:
    """Returns a metric of `observe`: the distinct values without NULL; NULL if there are more than `most`."""
    return fn("tidemill_observed_values", value, Lit(most, "long"))


def signed_counts(count: int) -> list[tuple[str, Expr]]:
    """Returns the metrics `inserts` and `deletes` of `observe`, over a column of signed counts."""
    return [("inserts", observed_sum(above_zero(count))), ("deletes", observed_sum(below_zero(count)))]
