from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.aggregates import EXTREMA, additive
from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Aggregate, Answer, Merge, Net, Partial
from tidemill.rule.build import keys, negate, node, total, with_keys
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA

OVER_DISTINCT = frozenset({"count", "sum", "avg"})


@rule(Aggregate)
def lineage_answer(m: Match[Aggregate]) -> Iterator[Result]:
    """An aggregate with calls that are not additive is an answer function over parts per group and value.

    Matches:  g_k(R), some calls min, max, distinct and the like, the others additive
    Yields:   h = g'_(k, v)(R)           v, the lineage key: the columns that the former read; g' the additive calls
              g        = a(parts(h))     a adds up the parts per k, and computes the other calls from the existing v
              delta g  = a(P + d parts(h)) - a(P)      with P = parts(h).old |x K, K = the keys k of d parts(h)

    Why: h merges by addition, so deletions are as easy as insertions: h holds the next extreme and the other rows of a
        value. R itself is not read, and only touched groups are answered again.
    Unsafe: for calls that depend on the multiplicity or order of values (percentile, first, lists), and if equal values
        are not identical (-0.0 and 0.0): nothing is yielded. If values hardly repeat, h is as large as R.
    Citation: [Fegaras16] section 2, its count of distinct elements and section 9; made exact under deletions by counts.
    """
    calls = [(c, e) for c, e in m.op.calls if additive(m.query, m.types, e) is not None]
    rest = tuple(call for call in m.op.calls if call not in calls)
    if not rest or not m.relation.props.reproducible or not all(_of_values(m, e) for _, e in rest):
        return
    (rows,) = m.inputs
    read = m.read(*(e for _, e in rest))
    lineage = tuple((c, Col(c)) for c in rows.columns if c in read and (c, Col(c)) not in m.op.keys)
    named = {c for c, _ in m.op.keys}
    if not read or not m.exact_keys(read) or named & {c for c, _ in lineage}:
        return
    finer = Aggregate((*m.op.keys, *lineage), tuple(calls))
    parts, fine = m.derive(finer, rows), m.partial_of(finer)
    assert fine is not None
    answer = Answer(Partial(m.op.keys, fine.calls, fine.count, fine.parts), rest)

    old, new = (parts.moment(ATTRIBUTE, old=old) for old in (True, False))
    yield m.snapshot(node(answer, new))
    if m.relation.changed:
        yield m.snapshot(node(answer, old), old=True)
        change = parts.change(ATTRIBUTE_DELTA)
        by = tuple((m.column(("lineage", c), m.types.type(c), m.types.name(c)), Col(c)) for c, _ in m.op.keys)
        before = with_keys(tuple((e, c) for c, e in by), old, keys((by, change)) if by else change)
        after = node(Merge(fine), before, change)
        both = total(m.relation.columns, node(answer, after), negate(node(answer, before)))
        yield m.delta(node(Net(m.relation.columns), both))


def _of_values(m: Match[Aggregate], expr: Expr) -> bool:
    """True for a call whose value depends only on the set of existing values."""
    info = m.query.info(expr)
    call = info.aggregate if info else None
    if call is None:
        return False
    return call.function in EXTREMA or (call.distinct and call.function in OVER_DISTINCT)
