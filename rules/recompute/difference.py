from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Net, QueryOp
from tidemill.rule.build import negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import DERIVED, rule


@rule(*DERIVED)
def difference(m: Match[QueryOp]) -> Iterator[Result]:
    """The delta is the new snapshot minus the old one.

    Matches:  Q                   Yields:  delta = net(Q.new - Q.old)

    Why: it needs nothing of the operator, so it ends every search: the best plan is never worse than computing again,
        and an operator without a rule of its own is recomputed alone, not the whole view with it.
    Unsafe: if Q is free in its answers and the old one is computed again instead of being read where it was kept.
    Citation: [Tempura] section 4.1 (inverse of the merge operator).
    """
    if m.relation.changed:
        change = total(m.relation.columns, m.relation.new, negate(m.relation.old))
        yield m.delta(node(Net(m.relation.columns), change))
