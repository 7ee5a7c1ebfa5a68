from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Cast, Col, Lit
from tidemill.plan.grouping import is_exact
from tidemill.plan.ops import Aggregate, Join, Merge, Project
from tidemill.rule.build import node
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import ATTRIBUTE_DELTA


@rule(Aggregate)
def pre_aggregated_pads(m: Match[Aggregate]) -> Iterator[Result]:
    """The parts of an aggregate over a left outer join are those over its pairs and those over its pads.

    Matches:  g(L =x| R on c), or over a projection of it, all calls additive
    Yields:   d parts(g) = d parts(g(L |x| R))  +per key  d parts(g(pad(L |> K)))
              with K the distinct values in R of the columns that c looks at

    Why: pairs are an inner join, of which `pre_aggregated_join` keeps the halves. K is an aggregate too, kept with the
        count of each value: only values that come first or go last change it, so that most changes of R reach no pad.
    Unsafe: with K of values that are equal but not alike to c (floats, strings with a collation): nothing is yielded. A
        pad counts in COUNT(*) and not in COUNT(r.x): both terms have the parts of every call, of NULLs in the pads.
    Citation: [DBToaster]; [Tempura] section 4.2 (3), whose example is an aggregate over an outer join.
    """
    partial = m.partial()
    (rows,) = m.inputs
    if partial is None or not rows.props.reproducible:
        return
    ways: list[tuple[Join, tuple[Relation, ...], tuple[Project, ...]]] = []
    ways += [(op, sides, ()) for op, sides in m.written(rows, Join)]
    for project, (joined,) in m.written(rows, Project):
        ways += [(op, sides, (project,)) for op, sides in m.written(joined, Join)]
    for op, sides, above in ways:
        pads = _pads(m, op, *sides) if op.kind == "left" else None
        if pads is None:
            continue
        parts = []
        for part in (m.derive(Join("inner", op.condition), *sides), pads):
            shown = m.derive(above[0], part) if above else part
            parts.append(m.derive(m.op, shown))
        if m.relation.changed:
            yield m.attribute_delta(node(Merge(partial), *(p.change(ATTRIBUTE_DELTA) for p in parts)))


def _pads(m: Match[Aggregate], op: Join, left: Relation, right: Relation) -> Relation | None:
    """The padded rows of a left outer join, from the distinct values that its condition looks at."""
    read = frozenset[int]().union(*(m.query.columns_of(c) for c in op.condition))
    looked = [c for c in right.columns if c in read]
    if not looked or not all(is_exact(m.types.type(c)) for c in looked):
        return None
    values = m.derive(Aggregate(tuple((c, Col(c)) for c in looked), ()), right)
    unmet = m.derive(Join("anti", op.condition), left, values)
    nulls = tuple((c, Cast(Lit(None, "void"), m.types.type(c))) for c in right.columns)
    return m.derive(Project((*((c, Col(c)) for c in left.columns), *nulls)), unmet)
