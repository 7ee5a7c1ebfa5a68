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

    Why: it requires nothing of the operator. So every search has a plan, never worse than computing everything again,
        and an operator without a rule is recomputed alone, not the whole view with it.
    Unsafe: if Q is not reproducible and the old snapshot is computed again instead of being read from where it was
        kept.
    Citation: [Tempura] section 4.1 (inverse of the merge operator).
    """
    if m.relation.changed:
        change = total(m.relation.columns, m.relation.new, negate(m.relation.old))
        yield m.delta(node(Net(m.relation.columns), change))
