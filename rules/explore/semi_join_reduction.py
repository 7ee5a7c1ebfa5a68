from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.kinds import JOIN_KINDS
from tidemill.plan.ops import Join
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.reduction import reduction
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind=JOIN_KINDS - {"full"})
def semi_join_reduction(m: Match[Join]) -> Iterator[Result]:
    """An input of a join that groups or partitions rows does so only for the keys that another input has.

    Matches:  A op g_k(R) on a = k and ..., op any join but a full one; w over (PARTITION BY k) (R) likewise
    Yields:   A op g_k(R |x K)   with K = the distinct values a in A

    Why: where A has few keys, few rows of R are grouped. Other groups meet nothing: an inner or semi join drops them,
        and a left, anti or existence join shows rows of A alone. An inner or semi join reduces its left side likewise.
    Unsafe: for a side that is padded, so for the left of a left join and both sides of a full one. If A is not
        reproducible, for it is computed twice. If a is equated with an aggregated value, which is known only once all
        rows of its group are. NULL keys are left out where only `=` equates them.
    Citation: [SeshadriEtAl96], magic sets as semi-joins, chosen by cost; semi-joins as reducers are from
        [BernsteinChiu81].
    """
    if not m.relation.props.reproducible:
        return
    for by, giving in enumerate(m.inputs):
        found = {
            of: r
            for of, rows in enumerate(m.inputs)
            if of != by and (of > 0 or m.op.kind in {"inner", "semi"})
            if (r := reduction(m, m.op.condition, rows, giving)) is not None
        }
        if found:
            new = (found[i].of(r.new, giving.new) if i in found else r.new for i, r in enumerate(m.inputs))
            yield m.snapshot(node(m.op, *new))
        if found and m.relation.changed:
            old = (found[i].of(r.old, giving.old) if i in found else r.old for i, r in enumerate(m.inputs))
            yield m.snapshot(node(m.op, *old), old=True)
