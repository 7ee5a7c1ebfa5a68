from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Built
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Join
from tidemill.rule.build import is_empty, join, negate, pad, total
from tidemill.rule.match import Match, Side
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind="full")
def full_outer_join(m: Match[Join]) -> Iterator[Result]:
    """A full outer join changes by pairs, and by the pads of either side.

    Matches:  L =x= R on c
    Yields:   delta = dL |x| R.new  +  L.old |x| dR  +  pads(L, R)  +  pads(R, L)
              pads(A, B) = pad(dA |> B.new)  +  pad(T |> B.new)  -  pad(T |> B.old)   with T = A.old |x dB

    Why: pairs are those of an inner join; a row of either side is padded while it meets none of the other, which is an
        anti join of its own. Both formulas hold for any condition.
    Unsafe: with T from the new rows of A: what came in this run would be padded twice, by the first term as well.
    Citation: [GriffinKumar98] section 4; [LarsonZhou07] on directly and indirectly affected rows.
    """
    condition, columns = m.op.condition, m.relation.columns
    left, right = m.sides()
    of_left, of_right = left.relation, right.relation

    terms: list[Built] = []
    if not is_empty(of_left.delta):
        met = right.cut(of_right.new, left.keys(of_left.delta))
        terms.append(join("inner", condition, columns, of_left.delta, met))
    if not is_empty(of_right.delta):
        met = left.cut(of_left.old, right.keys(of_right.delta))
        terms.append(join("inner", condition, columns, met, of_right.delta))
    terms.extend(_pads(m, condition, left, right))
    terms.extend(_pads(m, condition, right, left))
    yield m.delta(total(columns, *terms))


def _pads(m: Match[Join], condition: tuple[Expr, ...], one: Side, other: Side) -> Iterator[Built]:
    """The change of the rows of one side that meet none of the other, padded."""
    kept, met = one.relation, other.relation
    nulls = tuple((c, m.types.type(c)) for c in met.columns)
    if not is_empty(kept.delta):
        now = other.cut(met.new, one.keys(kept.delta))
        yield pad(nulls, join("anti", condition, kept.columns, kept.delta, now))
    if not is_empty(met.delta):
        touched = other.keys(met.delta)
        rows = join("semi", condition, kept.columns, one.cut(kept.old, touched), met.delta)
        before, now = (other.cut(r, touched) for r in (met.old, met.new))
        yield pad(nulls, join("anti", condition, kept.columns, rows, now))
        yield negate(pad(nulls, join("anti", condition, kept.columns, rows, before)))
