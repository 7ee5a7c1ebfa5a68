from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col, Expr
from tidemill.plan.keys import equated
from tidemill.plan.ops import Aggregate, Join, Net, Window
from tidemill.rule.build import negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.rule.touched import touched


@rule(Aggregate, Join, Window)
def touched_keys(m: Match[Aggregate | Join | Window]) -> Iterator[Result]:
    """Rows of the keys that changes far below touch are computed again, without the changes in between.

    Matches:  R = g_k(...), w over (PARTITION BY k) (...), or a join on k = ...
    Yields:   delta = (R.new |x K) - (R.old |x K)   with K = the values of k in the changed rows at the ends of the
              paths that k leads down: through selections, groups by k, partitions by k, and equalities of joins

    Why: several operators over one key request the same rows from their sources, once. `affected_groups` and
        `affected_join_keys` find K by the delta of the operator below, which requests rows of its own. An inner join
        of rows with an aggregate of themselves (the newest row of each key) reads these rows once, not in each term.
    Unsafe: if K left out a changed relation on the way that k does not lead down to: x > (SELECT avg(y) FROM u) with u
        changed touches every key. Such a path ends above, at the relation that has the key.
    Citation: folklore, as in [DBSP] and in pg_ivm, taken down to the sources.
    """
    if not m.relation.changed or not m.relation.props.reproducible:
        return
    for key in _keys(m):
        if (found := touched(m, key)) is not None:
            on, wanted = found
            new, old = (with_keys(on, rows, wanted) for rows in (m.relation.new, m.relation.old))
            yield m.delta(node(Net(m.relation.columns), total(m.relation.columns, new, negate(old))))


def _keys(m: Match[Aggregate | Join | Window]) -> Iterator[tuple[Expr, ...]]:
    """Keys by which rows of the matched relation stay together: the whole key, and each element of it alone."""
    match m.op:
        case Aggregate(keys):
            whole: tuple[Expr, ...] = tuple(Col(c) for c, _ in keys)
        case Window(partition=partition):
            whole = partition
        case Join("inner", condition):
            yield from (exprs[:1] for exprs, _ in equated(condition, m.query))
            return
        case Join(kind) as join if kind != "full":
            whole = tuple(e for _, e in m.sides_of(join)[0].named)
        case _:
            whole = ()
    if whole:
        yield whole
    if len(whole) > 1:
        yield from ((e,) for e in whole)
