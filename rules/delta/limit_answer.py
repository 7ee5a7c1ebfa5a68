from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Limit, Net
from tidemill.rule.build import negate, node, total
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Limit)
def limit_answer(m: Match[Limit]) -> Iterator[Result]:
    """A limit is an answer over a kept input: it is computed again and compared with the previous answer.

    Matches:  limit k (R)         Yields:  delta = limit k (R.new) - answer kept from the last run

    Why: a deletion among the first k rows needs row k + 1, which only the whole input has; the answer itself is small.
        The input's new snapshot comes from its state, not from the sources.
    Unsafe: if the old answer is computed again: among ties Spark may pick other rows than the view has, and to retract
        rows that do not exist breaks the bag. So the old answer is only read from where it was kept.
    Citation: the answer function of [Fegaras16]; pitfalls of top-k views in [YiEtAl03].
    """
    (rows,) = m.inputs
    if m.relation.changed:
        change = total(m.relation.columns, node(m.op, rows.new), negate(m.relation.old))
        yield m.delta(node(Net(m.relation.columns), change))
