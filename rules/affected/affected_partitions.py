from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Net, Window
from tidemill.rule.build import keys, negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Window)
def affected_partitions(m: Match[Window]) -> Iterator[Result]:
    """Window functions are computed again only over the partitions that a changed row belongs to.

    Matches:  w over (PARTITION BY p) (R)
    Yields:   delta = w(R.new |x K) - (w(R).old |x K)   with K = the distinct p of delta R, NULL being a partition

    Why: a function sees the rows of its own partition only, whatever its order and frame.
    Unsafe: if the old rows were computed again where ties leave the function free (row_number, lag, frames of rows):
        then they are read where they were kept. Without PARTITION BY all rows are one partition.
    Citation: folklore, as in [DBSP] and in pg_ivm.
    """
    if not m.relation.changed:
        return
    (rows,) = m.inputs
    wanted = tuple((m.column(("partition", i), m.types.type_of(e), f"key{i}"), e) for i, e in enumerate(m.op.partition))
    touched = keys((wanted, rows.delta)) if wanted else rows.delta
    on = tuple((e, c) for c, e in wanted)
    new = node(m.op, with_keys(on, rows.new, touched))
    old = with_keys(on, m.relation.old, touched)
    yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))
    if m.relation.props.reproducible:
        again = node(m.op, with_keys(on, rows.old, touched))
        yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(again))))
