from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Cast, Col, Lit
from tidemill.plan.ops import Join, Project, Union
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEGATIVE, POSITIVE


@rule(Join, kind={"left", "full"})
def outer_join_parts(m: Match[Join]) -> Iterator[Result]:
    """A left or full outer join is its pairs, and its padded rows apart.

    Matches:  L =x| R on c                                  Yields:  Q = P + N
              with P = L+ |x| R+                            the pairs that stay while L and R only grow
                   N = L+ |x| R-  +  L- |x| R  +  pad(L |> R)   (full: + pad(R |> L)), the rest
              L+ and L- the parts of L; L itself and nothing, where it has none

    Why: a pair once found is never taken back while rows only arrive, so it can be worked on early; a row without a
        partner may find one until the data is complete, so its pad is best left until the result is due.
    Unsafe: over inputs that give another answer each time (ties under a limit): a row could be paired in P and padded
        in N. Otherwise Q = P + N holds for any bags; under deletions P may shrink, and then little is won.
    Citation: [Tempura] equation 3 (IM-2); the parts carried through nested joins as in its figure 3b, made exact.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    grows = [m.linked(POSITIVE, i) or i for i in m.inputs]
    rest = [m.linked(NEGATIVE, i) for i in m.inputs]
    pairs = Join("inner", m.op.condition)
    others = [m.derive(pairs, grows[0], rest[1])] if rest[1] is not None else []
    others += [m.derive(pairs, rest[0], right)] if rest[0] is not None else []
    others.append(_padded(m, m.derive(Join("anti", m.op.condition), left, right), right))
    if m.op.kind == "full":
        others.append(_padded(m, m.derive(Join("anti", m.op.condition), right, left), left))
    yield from m.split(m.derive(pairs, *grows), _united(m, others))


def _padded(m: Match[Join], rows: Relation, missing: Relation) -> Relation:
    """Rows of one side with NULLs for the other, in the columns of the join."""
    nulls = {c: Cast(Lit(None, "void"), m.types.type(c)) for c in missing.columns}
    return m.derive(Project(tuple((c, nulls.get(c, Col(c))) for c in m.relation.columns)), rows)


def _united(m: Match[Join], parts: list[Relation]) -> Relation:
    if len(parts) == 1:
        return parts[0]
    return m.derive(Union(m.relation.columns, tuple(m.relation.columns for _ in parts)), *parts)
