from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Built
from tidemill.plan.expr import Col, fn
from tidemill.plan.ops import Filter, Join, Named, Net, Project
from tidemill.rule.build import is_empty, join, keys, negate, node, pad, total
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind={"left", "full"})
def indirectly_affected(m: Match[Join]) -> Iterator[Result]:
    """A left or full outer join changes first by its right side, then by its left; pads follow from its own old rows.

    Matches:  Q = L =x| R on c, a column of R (full: and one of L) NULL in no pair
    Yields:   delta = D + pads(L.old; Q.old, D)  +  dL =x| R.new            with D = L.old |x| dR
              full:   D + pads(L.old; Q.old, D) + pad(dR |> L.old)          Q' = Q.old and that: the virtual time point
                    + E + pads(R.new; Q', E) + pad(dL |> R.new)             with E = dL |x| R.new
              pads(A; P, D) = pad(A |x| V), V the values in the pairs of P, less those in the pairs of P + D
              and Q as a state that is worth keeping

    Why: which left rows gain their first partner or lose their last is asked of Q's own old rows and of the pairs that
        change, and not of R's old and new content. Where only R changes, R is not read at all.
    Unsafe: if pads were told by a NULL that a pair can have as well (then `told_apart` marks the pairs first); or if V
        were of values that are equal but not alike to c: floats go by their text, and for other such types nothing is
        yielded.
    Citation: [LarsonZhou07], [Tempura] equation 4. Open there, and decided here. Bags: the paper has keys; here V holds
        the values that c looks at (rows alike in them meet the same partners), pairs are counted by V, and how often a
        pad comes or goes is how often its row stands in A. Both inputs at once: dR meets L.old, dL meets R.new.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.sides()
    of_left, of_right, full = left.relation, right.relation, m.op.kind == "full"
    shown = [m.present(r) for r in ((of_right, of_left) if full else (of_right,))]
    asked = [m.asked(r) for r in ((of_left, of_right) if full else (of_left,))]
    if None in shown or None in asked:
        return
    yield m.keep(m.relation)
    if not (of_right.changed or (full and of_left.changed)):
        return
    is_pair = Filter(tuple(fn("isnotnull", Col(c)) for c in shown if c is not None))
    condition, columns = m.op.condition, m.relation.columns

    met = left.cut(of_left.old, right.keys(of_right.delta))
    first = join("inner", condition, columns, met, of_right.delta)
    terms: list[Built] = [first]
    if not is_empty(of_right.delta):
        pairs = node(is_pair, left.cut(m.relation.old, right.keys(of_right.delta)))
        terms.append(_padded(m, of_right, _turned(of_left, asked[0], met, pairs, first)))
        if full:
            terms.append(_padded(m, of_left, join("anti", condition, of_right.columns, of_right.delta, met)))
    if not is_empty(of_left.delta):
        met = right.cut(of_right.new, left.keys(of_left.delta))
        if not full:
            terms.append(join("left", condition, columns, of_left.delta, met))
        else:
            second = join("inner", condition, columns, of_left.delta, met)
            between = total(columns, m.relation.old, first)
            pairs = node(is_pair, right.cut(between, left.keys(of_left.delta)))
            terms += [second, _padded(m, of_left, _turned(of_right, asked[1], met, pairs, second))]
            terms.append(_padded(m, of_right, join("anti", condition, of_left.columns, of_left.delta, met)))
    yield m.delta(total(columns, *terms))


def _padded(m: Match[Join], missing: Relation, rows: Built) -> Built:
    """Rows of one side with NULLs for the other."""
    return pad(tuple((c, m.types.type(c)) for c in missing.columns), rows)


def _turned(side: Relation, asked: Named | None, rows: Built, pairs: Built, change: Built) -> Built:
    """The rows of one side whose pads come or, negated, go as the pairs change."""
    assert asked is not None
    values = tuple(c for c, _ in asked)
    same = tuple((c, Col(c)) for c in values)
    before = node(Project(asked), pairs)
    after = total(values, before, node(Project(asked), change))
    met, meets = (keys((same, node(Net(values), found))) for found in (before, after))
    flips = node(Net(values), total(values, met, negate(meets)))
    alike = tuple(fn("<=>", e, Col(c)) for c, e in asked)
    found = join("inner", alike, (*side.columns, *values), rows, flips)
    return node(Project(tuple((c, Col(c)) for c in side.columns)), found)
