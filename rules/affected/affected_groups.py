from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Aggregate, Net
from tidemill.rule.build import keys, negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Aggregate)
def affected_groups(m: Match[Aggregate]) -> Iterator[Result]:
    """Only the groups that a changed row belongs to are computed again.

    Matches:  g_k(R)
    Yields:   delta = g(R.new |x K) - (g(R).old |x K)   with K = the distinct keys k of delta R, NULL being a key

    Why: right for every aggregate function, holistic ones too (min, max, DISTINCT, percentiles, lists): a group depends
        on its own rows only.
    Unsafe: if the old rows were computed again where the function is free in its answer (first, collect_list, float
        sums); the old snapshot of such an aggregate exists only where it was kept. Comparing keys by `=` would lose the
        NULL group. The global group is affected by any change.
    Citation: folklore, as in [DBSP] and in pg_ivm.
    """
    if not m.relation.changed:
        return
    (rows,) = m.inputs
    wanted = tuple((m.column(("group", c), m.types.type(c), m.types.name(c)), e) for c, e in m.op.keys)
    touched = keys((wanted, rows.delta)) if wanted else rows.delta
    inner = tuple((e, c) for c, e in wanted)
    outer = tuple((Col(k), c) for (k, _), (c, _) in zip(m.op.keys, wanted, strict=True))
    new = m.evaluate(with_keys(inner, rows.new, touched))
    old = with_keys(outer, m.relation.old, touched)
    yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))
    if m.relation.props.reproducible:
        again = m.evaluate(with_keys(inner, rows.old, touched))
        yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(again))))
