from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Join
from tidemill.rule.build import is_empty, join, keys, negate, pad, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join)
def left_outer_join(m: Match) -> Iterator[Result]:
    """A left outer join changes by the left's new rows, the pairs of the right's, and pads that come or go.

    Matches:  L =x| R on c
    Yields:   delta = dL =x| R.new  +  L.old |x| dR  -  pad(T |> R.old)  +  pad(T |> R.new)
              with T = L.old |x dR, the old left rows that some changed right row matches

    Why: only left rows that meet a changed right row can gain or lose their pad. A row matched before and after, or
        neither, adds and takes away the same pad (pitfalls: "true add" and "true delete" without counting matches).
        Where c has equalities, both sides are first cut down to the keys at hand, so that what is joined is small.
    Unsafe: if the anti joins tested less than the whole of c: a row that matches on the key but fails another conjunct
        is padded. NULL keys match nothing under `=` and stay padded; they pass every step unharmed.
    Citation: [Tempura] rule (1) of figure 3, from [GuptaMumick06]; made exact for bags, deletions and any condition.
    """
    assert isinstance(m.op, Join)
    if m.op.kind != "left":
        return
    left, right = m.inputs
    condition, columns = m.op.condition, m.relation.columns
    named = m.named_keys(condition)
    of_left = tuple((k.column, k.left) for k in named)
    of_right = tuple((k.column, k.right) for k in named)
    left_on = tuple((e, c) for c, e in of_left)
    right_on = tuple((e, c) for c, e in of_right)

    terms = []
    if not is_empty(left.delta):
        met = with_keys(right_on, right.new, keys((of_left, left.delta)))
        terms.append(join("left", condition, columns, left.delta, met))
    if not is_empty(right.delta):
        touched = keys((of_right, right.delta))
        rows = with_keys(left_on, left.old, touched)
        met_old, met_new = (with_keys(right_on, r, touched) for r in (right.old, right.new))
        candidates = join("semi", condition, left.columns, rows, right.delta)
        nulls = tuple((c, m.types.type(c)) for c in right.columns)
        terms.append(join("inner", condition, columns, rows, right.delta))
        terms.append(negate(pad(nulls, join("anti", condition, left.columns, candidates, met_old))))
        terms.append(pad(nulls, join("anti", condition, left.columns, candidates, met_new)))
    yield m.delta(total(columns, *terms))
