from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Net, Scan, Unsign
from tidemill.rule.build import negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Scan)
def old_from_new(m: Match[Scan]) -> Iterator[Result]:
    """The old content of a table is its new content less what has changed.

    Matches:  scan R              Yields:  R.old = R.new - delta R

    Why: a join needs the old content of one side; a table whose history is gone, but which still tells its changes, has
        none to read. With this rule such a join stays incremental.
    Unsafe: for a source that cannot tell its changes: nothing is yielded then.
    Citation: [Tempura] section 4.1 (the inverse of the merge operator).
    """
    if m.tells_changes:
        columns = m.relation.columns
        before = total(columns, m.relation.new, negate(m.relation.delta))
        yield m.snapshot(node(Unsign(columns), node(Net(columns), before)), old=True)
