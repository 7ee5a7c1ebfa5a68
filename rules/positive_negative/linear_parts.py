from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Filter, Project, RowWise, Union
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEGATIVE, POSITIVE


@rule(Filter, Project, RowWise, Union)
def linear_parts(m: Match[Filter | Project | RowWise | Union]) -> Iterator[Result]:
    """A linear operator over relations that have parts has them too.

    Matches:  f(R)                Yields:  Q = f(R+) + f(R-)
              R + S                        Q = (R+ + S+) + (R- + S-)

    Why: what was split below stays split above, up to the aggregate that merges the two.
    Unsafe: for nothing that looks at more than one row; such operators are not linear.
    Citation: [Tempura] section 4.2 (IM-2).
    """
    rest = [m.linked(NEGATIVE, i) for i in m.inputs]
    negative = [(i, r) for i, r in enumerate(rest) if r is not None]
    if not negative or not m.relation.props.reproducible:
        return
    grows = [m.linked(POSITIVE, i) or i for i in m.inputs]
    op = m.op
    if isinstance(m.op, Union):
        op = Union(m.op.columns, tuple(m.op.branches[i] for i, _ in negative))
    yield from m.split(m.derive(m.op, *grows), m.derive(op, *(r for _, r in negative)))
