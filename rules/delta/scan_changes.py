from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Changes, Net, Scan
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEW, OLD


@rule(Scan)
def scan_changes(m: Match[Scan]) -> Iterator[Result]:
    """A source's own record of changes is the delta of its scan.

    Matches:  scan R              Yields:  delta(R) = net(changes R)

    Why: everything incremental starts here; the change feed is as small as the change. Netted over the columns that
        the query reads, an update of others is gone at once, and a row that came and went within the run is never
        looked at: an expression that fails on it must not fail the run. A change of one sign is net as it is; a small
        one in which no row came and went is looked at as it is: netting costs more than it spares.
    Unsafe: for a source that cannot tell its changes between the two positions (files were rewritten, history is
        gone): then no delta exists and only computing again is left.
    Citation: [Tempura] section 4.1.
    """
    if m.tells_changes:
        changes = node(Changes(m.op.source, m.op.columns, OLD, NEW))
        columns = m.relation.columns
        yield m.delta(node(Net(columns), changes) if m.may_cancel else changes)
