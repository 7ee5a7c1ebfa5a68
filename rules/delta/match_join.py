from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Join
from tidemill.rule.build import is_empty, negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind={"semi", "anti", "existence"})
def match_join(m: Match[Join]) -> Iterator[Result]:
    """A semi, anti or existence join changes by the left's new rows, and where a row's answer may have turned.

    Matches:  f(L, R) on c, f one of semi, anti and existence
    Yields:   delta = f(dL, R.new)  +  f(T, R.new)  -  f(T, R.old)
              with T = L.old |x dR, the old left rows that some changed right row meets

    Why: whether a left row meets any right row is asked of it alone, so signs and counts of the left pass through; only
        rows that meet a changed right row can get another answer, and both answers are asked anew instead of counting
        matches. Where c has equalities, both sides are first cut down to the keys at hand.
    Unsafe: if T were cut by less than the whole of c together with what NULL makes of it: NOT IN is an anti join on
        `l = r or (l = r) is null`, so a NULL among the changed right rows meets every left row.
    Citation: [GriffinKumar98] sections 4 and 5, made exact for bags and deletions.
    """
    left, right = m.sides()
    of_left, of_right = left.relation, right.relation

    terms = []
    if not is_empty(of_left.delta):
        met = right.cut(of_right.new, left.keys(of_left.delta))
        terms.append(node(m.op, of_left.delta, met))
    if not is_empty(of_right.delta):
        touched = right.keys(of_right.delta)
        rows = node(Join("semi", m.op.condition), left.cut(of_left.old, touched), of_right.delta)
        met_old, met_new = (right.cut(r, touched) for r in (of_right.old, of_right.new))
        terms.append(node(m.op, rows, met_new))
        terms.append(negate(node(m.op, rows, met_old)))
    yield m.delta(total(m.relation.columns, *terms))
