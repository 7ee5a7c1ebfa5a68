from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Join, Project
from tidemill.plan.props import equi_keys
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
    Unsafe: if r is not a key: a row of L would come once per row of R that it meets. A key by Spark's own grouping
        suffices, as equalities compare alike.
    Citation: [Graefe95]; keys as in [Tempura] section 4.1.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    pairs = equi_keys(m.op.condition, frozenset(left.columns), frozenset(right.columns), m.query)
    bound = {far.id for _, far, _ in pairs if isinstance(far, Col)}
    if set(left.columns) & set(right.columns) or not any(key and key <= bound for key in right.keys):
        return
    shown = Project(tuple((c, Col(c)) for c in left.columns))
    yield Equivalent(shown, (m.derive(Join("inner", m.op.condition), left, right).number,))
