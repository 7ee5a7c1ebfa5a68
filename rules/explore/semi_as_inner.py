from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Join, Project
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Join, kind="semi")
def semi_as_inner(m: Match[Join]) -> Iterator[Result]:
    """A semi join whose condition binds a key of its right side is an inner join, projected to the left columns.

    Matches:  L semi R on l = r and ..., r a key of R
    Yields:   project_L (L |x| R)

    Why: an inner join has one term per changed input, needs no answers before and after, and can start from either
        side.
    Unsafe: if r is not a key: a row of L would come once per row of R that it meets.
    Citation: [Graefe95]; keys as in [Tempura] section 4.1.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    if set(left.columns) & set(right.columns) or not m.is_unique(m.sides()[1]):
        return
    shown = Project(tuple((c, Col(c)) for c in left.columns))
    yield Equivalent(shown, (m.derive(Join("inner", m.op.condition), left, right).number,))
