from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Join
from tidemill.rule.build import join, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind="inner")
def inner_join(m: Match[Join]) -> Iterator[Result]:
    """An inner join of n inputs telescopes: one term per changed input, new to its left, old to its right.

    Matches:  R1 |x| R2 |x| R3
    Yields:   delta = dR1 |x| R2.old |x| R3.old  +  R1.new |x| dR2 |x| R3.old  +  R1.new |x| R2.new |x| dR3

    Why: n terms and not 2^n - 1; an unchanged input has no term, and each term can start from its small delta.
    Unsafe: with any other mixture of moments. With new on both sides a pair that changed on both is counted twice:
        R = {} -> {a}, S = {} -> {a} gives two rows for one.
    Citation: [GriffinLibkin95]; [Tempura] rule 1 of figure 4; a self-join shares one delta in two terms.
    """
    terms = []
    for i, changed in enumerate(m.inputs):
        before = (r.new for r in m.inputs[:i])
        after = (r.old for r in m.inputs[i + 1 :])
        terms.append(join("inner", m.op.condition, m.relation.columns, *before, changed.delta, *after))
    yield m.delta(total(m.relation.columns, *terms))
