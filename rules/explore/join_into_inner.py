from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Join, Project
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Join, kind={"left", "semi", "anti", "existence"})
def join_into_inner(m: Match[Join]) -> Iterator[Result]:
    """A left, semi, anti or existence join over an inner join that asks one of its inputs alone joins that input first.

    Matches:  (A |x| S) op R on c, c reading columns of A and R alone
    Yields:   (A op R) |x| S

    Why: what depends on a changed row of R is then found in A, and only that meets S; above the inner join all of
        A |x| S is needed to find it.
    Unsafe: where c reads columns of S too. Each pair of the inner join has the partners of its row of A, whichever they
        are, so bags, NULLs and NOT IN need no care; for a full join it is wrong, whose rows of R without a partner are
        padded once and not per row of S.
    Citation: [GalindoLegariaRosenthal97] on joins and outer joins that reorder freely; [Graefe95].
    """
    if not m.relation.props.reproducible:
        return
    left, right = m.inputs
    asked = m.read(*m.op.condition) - set(right.columns)
    for op, inputs in m.ways_below(left):
        if not isinstance(op, Join) or op.kind != "inner":
            continue
        at = next((i for i, x in enumerate(inputs) if asked and asked <= set(x.columns)), None)
        every = [c for i in (*inputs, right) for c in i.columns]
        if at is None or len(set(every)) < len(every):
            continue
        first = m.derive(m.op, inputs[at], right)
        moved = (*inputs[:at], first, *inputs[at + 1 :])
        if len(every) - len(right.columns) == len(left.columns):
            yield Equivalent(op, tuple(i.number for i in moved))
        else:
            shown = Project(tuple((c, Col(c)) for c in m.relation.columns))
            yield Equivalent(shown, (m.derive(op, *moved).number,))
