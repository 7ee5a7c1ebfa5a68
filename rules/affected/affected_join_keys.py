from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.kinds import JOIN_KINDS
from tidemill.plan.ops import Join, Net
from tidemill.rule.build import keys, negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind=JOIN_KINDS - {"inner"})
def affected_join_keys(m: Match[Join]) -> Iterator[Result]:
    """Only the join keys that a changed row has, on either side, are joined again.

    Matches:  L op R on l = r and ..., op any join but an inner one
    Yields:   delta = (L.new |x K) op (R.new |x K) - (L.old |x K) op (R.old |x K)
              with K = the keys of delta L and of delta R

    Why: rows of a key meet rows of that key only, so outer, semi, anti and existence joins are right without a formula
        of their own, whatever else stands in the condition.
    Unsafe: without an equality between the sides (every row depends on every other; then nothing is yielded), or if
        NULL keys were dropped from K: an outer join pads them.
    Citation: folklore, as in [DBSP] and in pg_ivm.
    """
    if not m.relation.changed:
        return
    left, right = m.sides()
    if not left.named or not m.relation.props.reproducible:
        return
    touched = keys((left.named, left.relation.delta), (right.named, right.relation.delta))
    new = node(m.op, left.cut(left.relation.new, touched), right.cut(right.relation.new, touched))
    old = node(m.op, left.cut(left.relation.old, touched), right.cut(right.relation.old, touched))
    yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))
