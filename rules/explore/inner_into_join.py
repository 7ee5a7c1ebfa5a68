from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Filter, Join, Project, QueryOp
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Join, kind="inner")
def inner_into_join(m: Match[Join]) -> Iterator[Result]:
    """An inner join over a left, semi, anti or existence join joins the left side of that one first.

    Matches:  (A op R) |x| S on c
    Yields:   filter c_r ((A |x| S on c_a) op R)       c_r: what of c reads columns that op adds; c_a: the rest

    Why: a change of S meets A first and R after that, so R is asked about few rows; otherwise A op R is worked out
        whole.
    Unsafe: if c_r went below op: a pad would never be tested by it. For a full join, whose rows of R without a partner
        may meet S.
    Citation: [GalindoLegariaRosenthal97] on joins and outer joins that reorder freely; [Graefe95].
    """
    if not m.relation.props.reproducible:
        return
    for i, one in enumerate(m.inputs):
        for op, inputs in m.ways_below(one):
            if isinstance(op, Join) and op.kind in {"left", "semi", "anti", "existence"}:
                yield from _first(m, i, op, *inputs)


def _first(m: Match[Join], i: int, op: Join, left: Relation, right: Relation) -> Iterator[Result]:
    inputs = (*m.inputs[:i], left, *m.inputs[i + 1 :])
    of_inputs = [c for x in inputs for c in x.columns]
    added = [*right.columns, *([op.exists] if op.exists is not None else [])]
    if len({*of_inputs, *added}) < len(of_inputs) + len(added):
        return
    after = tuple(e for e in m.op.condition if m.read(e) & set(added))
    before = tuple(e for e in m.op.condition if e not in after)
    joined = m.derive(Join("inner", before), *inputs)
    top: QueryOp = op
    below: tuple[Relation, ...] = (joined, right)
    columns = {*of_inputs, *(added if op.kind in {"left", "existence"} else ())}
    if after:
        top, below = Filter(after), (m.derive(top, *below),)
    if columns != set(m.relation.columns):
        top, below = Project(tuple((c, Col(c)) for c in m.relation.columns)), (m.derive(top, *below),)
    yield Equivalent(top, tuple(x.number for x in below))
