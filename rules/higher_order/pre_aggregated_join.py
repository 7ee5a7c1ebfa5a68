from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Aggregate, Merge
from tidemill.rule.build import is_empty, node
from tidemill.rule.halves import halves
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA


@rule(Aggregate)
def pre_aggregated_join(m: Match[Aggregate]) -> Iterator[Result]:
    """The parts of an aggregate over an inner join change by groups of one half that change and groups of the other.

    Matches:  g(R |x| S on c), or over a projection of it, all calls additive
    Yields:   d parts(g) = combine(d parts(M) |x| parts(N).old)  +per key  combine(parts(M).new |x| d parts(N))
              M, N aggregates of R and S by the columns of c and of what g computes from both; a call that reads one
              half is a call of its aggregate. combine: counts multiply, and parts with the count of the other half.
              S a join of several inputs: halved in turn; up to three inputs in each connected way, more in one

    Why: M and N do not hang on the update and are smaller than their inputs; kept as states, an update of R meets one
        group of N for each key and not all the rows below it. Each is an aggregate, and followed like any other.
    Unsafe: with a sum alone as the part: a group of NULLs would count as 0, so the count of what is known is beside it.
        If a half grouped by values that are equal but not alike (0.0 and -0.0) to what is computed of them; and with
        sums of floats, whose exact expansions have no product: such an argument is a key of its half, counted.
    Citation: [DBToaster]; [Tempura] equation 5. The paper's example puts IF(SUM(x) IS NULL, ...) for the sum of
        IF(x IS NULL, ...); here a call that reads both halves keeps the columns that it reads.
    """
    if m.partial() is None or not m.inputs[0].props.reproducible:
        return
    for found in halves(m):
        one, other = found.one, found.other
        changes = (
            found.parts(one.change(ATTRIBUTE_DELTA), other.moment(ATTRIBUTE, old=True)),
            found.parts(one.moment(ATTRIBUTE, old=False), other.change(ATTRIBUTE_DELTA)),
        )
        terms = [t for t in changes if not is_empty(t)]
        if terms:
            yield m.attribute_delta(terms[0] if len(terms) == 1 else node(Merge(found.combine.partial), *terms))
