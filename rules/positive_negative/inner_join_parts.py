from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Join, Union
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEGATIVE, POSITIVE


@rule(Join, kind="inner")
def inner_join_parts(m: Match[Join]) -> Iterator[Result]:
    """An inner join of relations that have parts has them too: the join of the positive ones, and the rest.

    Matches:  R1 |x| R2 |x| R3                    Yields:  Q = P + N
              with P = R1+ |x| R2+ |x| R3+
                   N = R1- |x| R2 |x| R3  +  R1+ |x| R2- |x| R3  +  R1+ |x| R2+ |x| R3-

    Why: what was split below a join stays split above it, up to the aggregate that merges the two.
    Unsafe: with whole inputs on both sides of a negative part, rows of R1- |x| R2- would count twice.
    Citation: [Tempura] section 4.2 (IM-2): Q+ of a join is the join of the inputs' Q+.
    """
    if not m.relation.props.reproducible:
        return
    grows = [m.linked(POSITIVE, i) or i for i in m.inputs]
    rest = [m.linked(NEGATIVE, i) for i in m.inputs]
    others = [
        m.derive(m.op, *grows[:i], negative, *m.inputs[i + 1 :])
        for i, negative in enumerate(rest)
        if negative is not None
    ]
    if not others:
        return
    columns = m.relation.columns
    union = Union(columns, tuple(columns for _ in others))
    yield from m.split(m.derive(m.op, *grows), others[0] if len(others) == 1 else m.derive(union, *others))
