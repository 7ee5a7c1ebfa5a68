from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Crossing, Filter, Project
from tidemill.rule.build import node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEW, OLD


@rule(Filter, Project)
def moving_bound(m: Match[Filter | Project]) -> Iterator[Result]:
    """A filter that reads the clock changes by the new rows, and by the rows that the clock alone lets in or out.

    Matches:  f(R, now)           Yields:  delta = f(dR, new)  +  (f(R.old, new) - f(R.old, old))
                                           delta = f(dR, old)  +  (f(R.new, new) - f(R.new, old))

    Why: `d > current_date() - 7` gives another answer only for rows between the old and the new bound. The difference
        in parentheses reads R once, with both bounds in one condition that the scan can apply (`Crossing`).
        A projection with a condition on the clock (`d < current_date() AS overdue`) changes likewise.
    Unsafe: if both terms used the same clock and the same R: rows that come in by the data and by the clock at once
        would count twice, or not at all.
    Citation: [GhanemEtAl07] (rows that expire are negative tuples); the two terms are those of a bilinear operator
        over R and the clock.
    """
    if not m.moves:
        return
    (rows,) = m.inputs
    crossing = Crossing(m.op, OLD, NEW)
    columns = m.relation.columns
    yield m.delta(total(columns, node(m.at(NEW), rows.delta), node(crossing, rows.old)))
    if rows.changed:
        yield m.delta(total(columns, node(m.at(OLD), rows.delta), node(crossing, rows.new)))
