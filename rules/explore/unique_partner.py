from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Built
from tidemill.plan.expr import FALSE, TRUE, Col, Expr
from tidemill.plan.ops import Join, Project
from tidemill.rule.build import is_empty, join, negate, node, pad, total
from tidemill.rule.match import Match, Side
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind={"anti", "existence", "left", "full"})
def unique_partner(m: Match[Join]) -> Iterator[Result]:
    """The answer for a row that meets at most one row of the other side changes with that row alone.

    Matches:  f(L, R) on l = r and ..., f an anti, existence, left or full join, r a key of R (full: l one of L, too)
    Yields:   delta = f(dL, R.old)  +  what J = L.new |x| dR changes, J_l its columns of L:
              anti:      - J_l
              existence: + (J_l, true)  -  (J_l, false)
              left:      + J  -  pad(J_l)
              full:      + J  -  pad(J_l)  +  pad(dR |> L.new)  -  pad(I_r), I = R.old |x| dL; its f(dL, R.old) pads L

    Why: with one partner at most, L |> R = L - (L |x| R)_l as bags, which is linear in R. So R is not read for its own
        change, neither before nor after it. Counted values, as `match_distinct` keeps them, are such a side.
    Unsafe: if r is not a key of R: J_l would have a row of L once per changed partner. If the rest of the condition was
        left out of J: a row that only r meets is no partner.
    Citation: [GriffinKumar98], whose terms for other partners vanish; [LarsonZhou07] on keys.
    """
    condition, columns = m.op.condition, m.relation.columns
    left, right = m.sides()
    of_left, of_right = left.relation, right.relation
    if not m.relation.props.reproducible or set(of_left.columns) & set(of_right.columns):
        return
    if not m.is_unique(right) or (m.op.kind == "full" and not m.is_unique(left)):
        return

    terms: list[Built] = []
    if not is_empty(of_left.delta):
        met = right.cut(of_right.old, left.keys(of_left.delta))
        answers = Join("left", condition) if m.op.kind == "full" else m.op
        terms.append(node(answers, of_left.delta, met))
    if not is_empty(of_right.delta):
        terms.extend(_answers(m, left, right))
    if m.op.kind == "full":
        terms.extend(_pads(m, right, left))
    yield m.delta(total(columns, *terms))


def _answers(m: Match[Join], left: Side, right: Side) -> Iterator[Built]:
    """The change of the answers for rows of the left side, by changed rows of the right one."""
    pairs = _pairs(m, left.relation.new, right)
    match m.op.kind:
        case "anti":
            yield negate(_shown(left, pairs))
        case "existence":
            assert m.op.exists is not None
            yield _shown(left, pairs, (m.op.exists, TRUE))
            yield negate(_shown(left, pairs, (m.op.exists, FALSE)))
        case _:
            yield pairs
            yield negate(_padded(m, right, _shown(left, pairs)))


def _pads(m: Match[Join], one: Side, other: Side) -> Iterator[Built]:
    """The change of the padded rows of one side."""
    kept, met = one.relation, other.relation
    if not is_empty(kept.delta):
        now = other.cut(met.new, one.keys(kept.delta))
        yield _padded(m, other, join("anti", m.op.condition, kept.columns, kept.delta, now))
    if not is_empty(met.delta):
        yield negate(_padded(m, other, _shown(one, _pairs(m, kept.old, other))))


def _pairs(m: Match[Join], rows: Built, other: Side) -> Built:
    """Rows of one side with the changed rows of the other that they meet."""
    return join("inner", m.op.condition, m.relation.columns, rows, other.relation.delta)


def _shown(side: Side, pairs: Built, *more: tuple[int, Expr]) -> Built:
    """The columns of one side in pairs."""
    return node(Project((*((c, Col(c)) for c in side.relation.columns), *more)), pairs)


def _padded(m: Match[Join], missing: Side, rows: Built) -> Built:
    """Rows with NULLs for the other side."""
    return pad(tuple((c, m.types.type(c)) for c in missing.relation.columns), rows)
