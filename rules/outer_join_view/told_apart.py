from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import TRUE, Col
from tidemill.plan.ops import Join, Project
from tidemill.rule.build import node
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind={"left", "full"})
def told_apart(m: Match[Join]) -> Iterator[Result]:
    """A left or full outer join whose pads may look like pairs is one with marked sides, without its marks.

    Matches:  Q = L =x| R on c, no column of R (full: or none of L) that is NULL in no pair
    Yields:   Q.new = f(Q'.new), Q.old = f(Q'.old), delta Q = f(delta Q')
              with Q' = L =x| (R, true), a mark on each side that needs one, and f the projection to the columns of Q

    Why: on l <=> r, l < r or no condition a row of NULLs can be a partner. In Q' its mark tells it from a pad, so that
        Q' can be followed through its own old rows; it is kept in the place of Q.
    Unsafe: for nothing; where an equality tells pads from pairs it would only make rows wider, and yields nothing.
    Citation: [LarsonZhou07], which takes it that each table has a column without NULLs.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    marked = m.derive(m.op, _marked(m, left) if m.op.kind == "full" else left, _marked(m, right))
    if marked.columns == m.relation.columns:
        return
    same = Project(tuple((c, Col(c)) for c in m.relation.columns))
    yield m.snapshot(node(same, marked.new))
    if m.relation.changed:
        yield m.snapshot(node(same, marked.old), old=True)
        yield m.delta(node(same, marked.delta))


def _marked(m: Match[Join], side: Relation) -> Relation:
    """A side of the join with a mark on each row, unless a column serves as one."""
    if m.present(side) is not None:
        return side
    mark = m.column(("mark", side.number), "boolean", "met")
    return m.derive(Project((*((c, Col(c)) for c in side.columns), (mark, TRUE))), side)
