from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Join
from tidemill.rule.build import is_empty, join, negate, pad, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind="left")
def left_outer_join(m: Match[Join]) -> Iterator[Result]:
    """A left outer join changes by the left's new rows, the pairs of the right's, and pads that come or go.

    Matches:  L =x| R on c
    Yields:   delta = dL =x| R.new  +  L.old |x| dR  -  pad(T |> R.old)  +  pad(T |> R.new)
              with T = L.old |x dR, the old left rows that some changed right row matches

    Why: only left rows that meet a changed right row can gain or lose their pad. A row matched before and after, or
        neither, adds and takes away the same pad ("true add" and "true delete" without counting matches).
        Where c has equalities, both sides are first cut down to the keys at hand, so that what is joined is small.
    Unsafe: if the anti joins tested less than the whole of c: a row that matches on the key but fails another conjunct
        is padded. NULL keys match nothing under `=` and stay padded; they pass every step unharmed.
    Citation: [Tempura] rule (1) of figure 3, from [GuptaMumick06]; made exact for bags, deletions and any condition.
    """
    condition, columns = m.op.condition, m.relation.columns
    left, right = m.sides()
    of_left, of_right = left.relation, right.relation

    terms = []
    if not is_empty(of_left.delta):
        met = right.cut(of_right.new, left.keys(of_left.delta))
        terms.append(join("left", condition, columns, of_left.delta, met))
    if not is_empty(of_right.delta):
        touched = right.keys(of_right.delta)
        rows = left.cut(of_left.old, touched)
        met_old, met_new = (right.cut(r, touched) for r in (of_right.old, of_right.new))
        candidates = join("semi", condition, of_left.columns, rows, of_right.delta)
        nulls = tuple((c, m.types.type(c)) for c in of_right.columns)
        terms.append(join("inner", condition, columns, rows, of_right.delta))
        terms.append(negate(pad(nulls, join("anti", condition, of_left.columns, candidates, met_old))))
        terms.append(pad(nulls, join("anti", condition, of_left.columns, candidates, met_new)))
    yield m.delta(total(columns, *terms))
