from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Filter, Net, Window
from tidemill.rule.build import keys, negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEW


@rule(Filter)
def filtered_partitions(m: Match[Filter]) -> Iterator[Result]:
    """Filtered window functions are computed again over the partitions of changed rows, and filtered there.

    Matches:  F = s(w over (PARTITION BY p) (R))
    Yields:   delta = s(w(R.new |x K)) - (F.old |x K)   with K = the distinct p of delta R, NULL being a partition

    Why: of WHERE row_number() <= 3 only the rows that pass are kept, compared and written. `affected_partitions` asks
        for all old rows of the window, which a state must hold where ties make its answer ambiguous. Spark drops rows
        that are not among the first of their partition before it computes ranks.
    Unsafe: if s reads the clock, and it moved: rows of other partitions pass now. If F does not show p: old rows of
        the partitions cannot be found.
    Citation: folklore, as in [DBSP] and in pg_ivm.
    """
    if not m.relation.changed or m.moves:
        return
    for window, (rows,) in m.written(m.inputs[0], Window):
        if not window.partition or not m.read(*window.partition) <= set(m.relation.columns):
            continue
        named = tuple(
            (m.column(("partition", i), m.types.type_of(e), f"key{i}"), e) for i, e in enumerate(window.partition)
        )
        touched, on = keys((named, rows.delta)), tuple((e, c) for c, e in named)
        new = node(m.at(NEW), node(window, with_keys(on, rows.new, touched)))
        old = with_keys(on, m.relation.old, touched)
        yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))
