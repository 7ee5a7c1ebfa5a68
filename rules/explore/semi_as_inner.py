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
    """A semi join whose right side has a key that is bound is an inner join, of which the left columns are shown.

    Matches:  L semi R on l = r and ..., r a key of R
    Yields:   project_L (L |x| R)

    Why: an inner join has one term per changed input, without asking again before and after, and can start from either.
    Unsafe: without the key: a row of L would come once per row of R that it meets. That it is a key by Spark's own
        grouping is enough, as equalities compare alike.
    Citation: [Graefe95]; keys as in [Tempura] section 4.1.
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    pairs = equi_keys(m.op.condition, frozenset(left.columns), frozenset(right.columns), m.query)
    bound = {far.id for _, far, _ in pairs if isinstance(far, Col)}
    if set(left.columns) & set(right.columns) or not any(key and key <= bound for key in right.props.keys):
        return
    shown = Project(tuple((c, Col(c)) for c in left.columns))
    yield Equivalent(shown, (m.derive(Join("inner", m.op.condition), left, right).number,))
