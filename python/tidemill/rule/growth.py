"""Relations that only grow within an interval: rows come, none leaves."""

from __future__ import annotations

from tidemill.memo.memo import Memo
from tidemill.plan.clock import clock_of
from tidemill.plan.grouping import is_plain
from tidemill.plan.ops import Aggregate, Filter, Join, Project, RowWise, Scan, Union
from tidemill.tvr.form import Span


def grows(memo: Memo, tvr: int, span: Span) -> bool:
    """True if it is known that no row leaves a relation within an interval.

    Its net change has no negative counts then; its change in another form may have some that cancel out.
    """
    if not memo.changed(tvr, span):
        return True
    op, inputs = memo.tvrs[tvr].expressions[0]
    match op:
        case Scan(source):
            return source in memo.timeline.growing(span)
        case Filter() | Project():
            still = not clock_of(op, memo.query) & memo.timeline.changed(span)
            return still and grows(memo, inputs[0], span)
        case Join(kind):
            # A new row of the right side may take away the pad of an old one, or an answer that it has none.
            first = inputs if kind in {"inner", "semi"} else inputs[:1]
            still = not any(memo.changed(i, span) for i in inputs[len(first) :])
            return still and kind != "full" and all(grows(memo, i, span) for i in first)
        case Aggregate(keys, ()) if all(is_plain(memo.columns.type(c)) for c, _ in keys):
            return grows(memo, inputs[0], span)  # of equal texts under a collation a new one may be shown
        case Union() | RowWise():
            return all(grows(memo, i, span) for i in inputs)
        case _:
            return False
