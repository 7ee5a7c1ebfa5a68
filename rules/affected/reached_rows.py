from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Expr
from tidemill.plan.ops import FromStart, Net, Reach, ReachedWindow, Window
from tidemill.rule.build import keys, negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Window)
def reached_rows(m: Match[Window]) -> Iterator[Result]:
    """Window functions are computed again only from the first row on that a change reaches.

    Matches:  w over (PARTITION BY p ORDER BY o) (R), each value made from rows before its own and at most l behind it
    Yields:   delta = f(w(c(R.new |x K))) - f(w(R).old |x K)   with K = the distinct p of delta R, per partition s = the
              least o in delta R, f = the rows from the l-th before s on, c = those that these are made from: from n
              rows before on, from the last row before on in which a value is not NULL, or all

    Why: rows before s are the same before and after the change, so are those of f before s on both sides, and no value
        of an earlier row is made from a changed one. The values of f are made from rows of c.
    Unsafe: if rows of c before s tie in the order. ROW_NUMBER-like choices between them were made when the rows that
        stay were computed, and would be made once more; so in a partition with such rows f and c are all of it. A
        running count is the same for each choice, a running sum of doubles is not. Where o is not shown by the
        window, old rows cannot be told from their values.
    Citation: ours; bounds by frame as in the window operators of [DBSP].
    """
    bounds, (rows,) = m.op.bounds, m.inputs
    if bounds is None or not m.relation.changed:
        return
    first = m.op.order[0]
    if not m.read(first.expr, *m.op.partition) <= set(m.relation.columns):
        return

    def column(role: str, e: Expr, i: int = 0) -> int:
        return m.column((role, i), m.types.type_of(e), f"{role}{i}")

    parts = tuple((column("partition", e, i), e) for i, e in enumerate(m.op.partition))
    on = tuple((e, c) for c, e in parts)
    touched = keys((parts, rows.delta)) if parts else rows.delta
    reached, read = column("reached", first.expr), column("read", first.expr)
    again = tuple((column("reach", e, i), e) for i, e in enumerate(m.op.partition))
    there = tuple((e, c) for c, e in again)
    some = with_keys(on, rows.new, touched)
    near = () if bounds.nothing_before else (some,)
    reach = node(Reach(again, m.op.order, bounds, reached, read), *near, rows.delta)
    new = node(ReachedWindow(m.op, there, read, reached), some, reach)
    old = node(FromStart(there, first, reached, bounds.behind), with_keys(on, m.relation.old, touched), reach)
    yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))
