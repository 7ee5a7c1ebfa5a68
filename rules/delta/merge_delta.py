from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Net, QueryOp, Unsign
from tidemill.rule.build import node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import DERIVED, rule


@rule(*DERIVED)
def merge_delta(m: Match[QueryOp]) -> Iterator[Result]:
    """The new snapshot is the old one plus the delta.

    Matches:  Q                   Yields:  Q.new = net(Q.old + delta Q)

    Why: where the old snapshot is kept as a state, reading and merging it is cheaper than computing it again.
    Unsafe: with sets for bags: counts are added, so deleting one of two equal rows leaves one.
    Citation: [Tempura] equation 1 and rule (3) of figure 3.
    """
    if m.relation.changed:
        merged = total(m.relation.columns, m.relation.old, m.relation.delta)
        yield m.snapshot(node(Unsign(m.relation.columns), node(Net(m.relation.columns), merged)))
