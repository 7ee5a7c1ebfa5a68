from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Aggregate, Join
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Join, kind={"semi", "anti", "existence"})
def match_distinct(m: Match[Join]) -> Iterator[Result]:
    """A semi, anti or existence join needs only the distinct values of its right side.

    Matches:  L op R on c, op one of semi, anti and existence
    Yields:   L op distinct_r(R), r the columns of R that c reads

    Why: the distinct values with their counts can be kept. They change only when the first row of a value comes or the
        last one goes, so most changes of R end there.
    Unsafe: if equal values are not identical (-0.0 and 0.0, strings under a collation), so that c could tell them
        apart.
    Citation: [Graefe95]; counts per value as in [GriffinKumar98].
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    read = m.read(*m.op.condition) & set(right.columns)
    if not read or not m.exact_keys(read) or any(key <= read for key in right.keys):
        return
    values = Aggregate(tuple((c, Col(c)) for c in right.columns if c in read), ())
    yield Equivalent(m.op, (left.number, m.derive(values, right).number))
