from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Built
from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Aggregate, Gather, Join, Partial, Project
from tidemill.rule.build import is_empty, join, node
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA


@rule(Aggregate)
def cogroup_aggregate(m: Match[Aggregate]) -> Iterator[Result]:
    """An aggregate over an inner join keeps the parts of its counted side per lineage key, before the join.

    Matches:  g_k(F |x| R on c), the calls of g reading columns of F alone (several inputs of a join may be F)
    Yields:   h = g_t(F)                      t, the lineage key: the columns of F that k or c reads
              parts(g)    = gather(parts(h) |x| R)
              d parts(g)  = gather(d parts(h) |x| R.new  +  parts(h).old |x| dR)
              gather adds up parts per k, each as often as the count of its row says, subtracted if that is negative

    Why: all rows of F with one t meet the same rows of R, so their parts may be added up before the join. A change of R
        meets parts instead of rows: a partner that arrives late finds in h the rows that waited for it.
    Unsafe: as published, h(S + dS, T + dT) is merged from h(S, T) and h(dS, dT) alone: a row of S now and its partner
        in T a run later give nothing, and many-to-many joins and deletions are excluded. So parts(h) and R stay
        separate (the paper's coGroup, which is a homomorphism for any join), and the cross terms are the answer
        function. Nothing is yielded if c could tell apart equal values of t (-0.0 and 0.0, strings under a collation),
        or if a part cannot be subtracted (sums of floats and of wide decimals).
    Citation: [Fegaras16] sections 2 and 8, made exact; [YanLarson95] on aggregating before the join.
    """
    partial, calls = m.partial(), m.additive_calls()
    if partial is None or calls is None or not m.relation.props.reproducible:
        return
    if any(part.merge != "sum" for call in calls for part in call.parts):
        return
    for op, inputs in m.ways_below(m.inputs[0]):
        if isinstance(op, Join) and op.kind == "inner":
            yield from _apart(m, m.op, partial, op.condition, inputs)


def _apart(
    m: Match[Aggregate], op: Aggregate, partial: Partial, condition: tuple[Expr, ...], inputs: tuple[Relation, ...]
) -> Iterator[Result]:
    wanted = m.read(*(e for _, e in op.calls))
    counted = [i for i in inputs if wanted & set(i.columns)] or [inputs[0]]
    others = [i for i in inputs if i not in counted]
    if not others:
        return
    of_counted = {c for i in counted for c in i.columns}
    within = tuple(e for e in condition if len(counted) > 1 and m.read(e) <= of_counted)
    between = tuple(e for e in condition if e not in within)
    rows = counted[0] if len(counted) == 1 else m.derive(Join("inner", within), *counted)
    read = m.read(*(e for _, e in op.keys), *between)
    lineage = [c for c in rows.columns if c in read]
    if not lineage or not m.exact_keys(lineage) or any(key <= set(lineage) for key in rows.keys):
        return
    finer = Aggregate(tuple((c, Col(c)) for c in lineage), op.calls)
    parts, fine = m.derive(finer, rows), m.partial_of(finer)
    assert fine is not None

    pairs = zip(partial.parts, fine.parts, strict=True)
    named = ((c, Col(f)) for cs, fs in pairs for c, f in zip(cs, fs, strict=True))
    shown = Project((*op.keys, (partial.count, Col(fine.count)), *named))

    def joined(of: Built, *met: Built) -> Built:
        return node(shown, join("inner", between, tuple(c for c, _ in shown.columns), *met, of))

    old, new = (parts.moment(ATTRIBUTE, old=old) for old in (True, False))
    yield m.attribute(node(Gather(partial), joined(new, *(r.new for r in others))))
    if m.relation.changed:
        yield m.attribute(node(Gather(partial), joined(old, *(r.old for r in others))), old=True)
        terms = []
        for i, r in enumerate(others):
            met = (*(x.new for x in others[:i]), r.delta, *(x.old for x in others[i + 1 :]))
            terms.append(joined(old, *met))
        terms.append(joined(parts.change(ATTRIBUTE_DELTA), *(r.new for r in others)))
        yield m.attribute_delta(node(Gather(partial), *(t for t in terms if not is_empty(t))))
