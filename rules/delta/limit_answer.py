from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Limit, Net
from tidemill.rule.build import negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Limit)
def limit_answer(m: Match[Limit]) -> Iterator[Result]:
    """A limit is an answer over an input that is kept: answered anew, and compared with the answer before.

    Matches:  limit k (R)         Yields:  delta = limit k (R.new) - answer kept from the last run

    Why: a deletion inside the first k rows needs row k + 1, which only the whole input knows; the answer itself is
        small. The input's new snapshot comes from its state, not from the sources.
    Unsafe: with the old answer computed again: among tied rows Spark may pick others than those that the view holds,
        and retracting what is not there breaks the bag. So the old answer is only ever read where it was kept.
    Citation: the answer function of [Fegaras16]; pitfalls of top-k views in [YiEtAl03].
    """
    (rows,) = m.inputs
    if m.relation.changed:
        change = total(m.relation.columns, node(m.op, rows.new), negate(m.relation.old))
        yield m.delta(node(Net(m.relation.columns), change))
