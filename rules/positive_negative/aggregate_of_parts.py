from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Aggregate, Merge
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA, NEGATIVE, POSITIVE


@rule(Aggregate)
def aggregate_of_parts(m: Match[Aggregate]) -> Iterator[Result]:
    """An additive aggregate of a relation that has parts merges the aggregates of the two.

    Matches:  g(R), R = R+ + R-
    Yields:   parts(g(R))    = parts(g(R+))    +per key  parts(g(R-))
              d parts(g(R))  = d parts(g(R+))  +per key  d parts(g(R-))

    Why: g(R+) is kept and followed early and is never taken back; g(R-) is worked out when the result is due.
    Unsafe: for min, max and DISTINCT, whose values do not merge by addition; they keep the whole of R.
    Citation: [Tempura] section 4.2, "similar decomposition holds for the aggregate".
    """
    (rows,) = m.inputs
    positive, negative = m.linked(POSITIVE, rows), m.linked(NEGATIVE, rows)
    partial = m.partial()
    if partial is None or positive is None or negative is None:
        return
    grows, rest = m.derive(m.op, positive), m.derive(m.op, negative)
    both = grows.moment(ATTRIBUTE, old=False), rest.moment(ATTRIBUTE, old=False)
    yield m.attribute(node(Merge(partial), *both))
    if m.relation.changed:
        changes = grows.change(ATTRIBUTE_DELTA), rest.change(ATTRIBUTE_DELTA)
        yield m.attribute_delta(node(Merge(partial), *changes))
