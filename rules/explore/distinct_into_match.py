from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Aggregate, Join, Project
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Aggregate)
def distinct_into_match(m: Match[Aggregate]) -> Iterator[Result]:
    """The distinct rows of a semi or anti join are the semi or anti join of the distinct rows.

    Matches:  distinct_k (L op R on c), op semi or anti, c reading of L only columns in k
    Yields:   distinct_k(L) op R

    Why: INTERSECT and EXCEPT are written so. A change of R then meets each value of L once, from the kept distinct
        values of L, instead of all its rows.
    Unsafe: if c reads another column of L, in which two rows of one value may differ; or if equal values are not
        identical (-0.0 and 0.0), so that c could tell them apart.
    Citation: [Graefe95]; [GuptaHarinarayanQuass95] on moving aggregates through joins.
    """
    columns = [e.id for _, e in m.op.keys if isinstance(e, Col)]
    if m.op.calls or not columns or len(columns) < len(m.op.keys) or not m.relation.props.reproducible:
        return
    for op, inputs in m.ways_below(m.inputs[0]):
        if not isinstance(op, Join) or op.kind not in {"semi", "anti"}:
            continue
        left, right = inputs
        asked = m.read(*op.condition) - set(right.columns)
        if not asked <= set(columns) or not m.exact_keys(columns) or any(k <= set(columns) for k in left.keys):
            continue
        values = m.derive(Aggregate(tuple((c, Col(c)) for c in dict.fromkeys(columns)), ()), left)
        yield Equivalent(Project(m.op.keys), (m.derive(op, values, right).number,))
