from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.grouping import is_plain
from tidemill.plan.ops import Aggregate, FinalChange, Net, Project
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Aggregate)
def grown_groups(m: Match[Aggregate]) -> Iterator[Result]:
    """The groups of new rows are brought up to date from their old values, while no row leaves.

    Matches:  g_k(R), all calls among count, sums of small integers, min, max, and and or of booleans and of bits
    Yields:   delta = final of the touched groups, from p(g(R).old) and g'(net delta R): old with -1 and new with +1,
              equal rows suppressed    where g' computes parts that merge, and p reads them off the old values

    Why: min(R + dR) = min(min(R), min(dR)). So the rows of a group are not read again, and the view's own content is
        all that is kept. A group that exists stays, so its number of rows need not be known.
    Unsafe: if a row leaves, it may be the least: nothing is yielded unless the changes of all sources are known to
        insert only, and the operators below pass that on. A change that is not net may hold a row that came and went.
        A sum of floats is rounded, so that it tells no exact parts. Keys under a collation have several spellings.
    Citation: [GrayEtAl97] on distributive aggregates; [GuptaJagadishMumick96] on views that maintain themselves.
    """
    (rows,) = m.inputs
    if not m.relation.changed or not m.op.calls or not rows.grows:
        return
    found = m.growing()
    if found is None or not all(is_plain(m.types.type(c)) for c, _ in m.op.keys):
        return
    partial, told = found
    change = node(partial, node(Net(rows.columns), rows.delta))
    yield m.delta(node(FinalChange(partial), node(Project(told), m.relation.old), change))
