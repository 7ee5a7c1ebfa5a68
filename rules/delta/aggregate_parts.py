from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Aggregate, Final, FinalChange, Merge
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA


@rule(Aggregate)
def aggregate_parts(m: Match[Aggregate]) -> Iterator[Result]:
    """An aggregate of additive calls is kept as parts per group that merge by addition.

    Matches:  g(R), all calls among count, sum, avg, variance, stddev
    Yields:   parts(g)        = g'(R)                                  g' sums n*x, n, n*x*x per group
              d parts(g)      = g'(delta R)
              parts(g).new    = parts(g).old  +per key  d parts(g)
              g.new           = final(parts(g).new)
              delta g         = final of the touched groups, old with -1 and new with +1, equal rows suppressed

    Why: work in the size of the change; a group exists while its row count is positive, whatever its sums are.
    Unsafe: for min, max and DISTINCT (a deletion needs what is below); such a call makes the whole aggregate go
        another way. And with sums in the type of the answer: +x and -x of one change may leave it where no answer does.
    Citation: [Tempura] section 3.2 (attribute perspective) and rules (2), (4) of figure 3; [GrayEtAl97] on algebraic
        aggregates.
    """
    partial = m.partial()
    if partial is None:
        return
    (rows,) = m.inputs
    kept, change = m.relation.moment(ATTRIBUTE, old=True), m.relation.change(ATTRIBUTE_DELTA)
    yield m.attribute(node(partial, rows.new))
    yield m.snapshot(node(Final(partial), m.relation.moment(ATTRIBUTE, old=False)))
    if m.relation.changed:
        yield m.attribute(node(partial, rows.old), old=True)
        yield m.snapshot(node(Final(partial), kept), old=True)
        yield m.attribute_delta(node(partial, rows.delta))
        yield m.attribute(node(Merge(partial), kept, change))
        yield m.delta(node(FinalChange(partial), kept, change))
