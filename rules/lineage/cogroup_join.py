from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Aggregate, Filter, Join, Project, RowWise, Scan
from tidemill.plan.props import equi_keys
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join)
def cogroup_join(m: Match[Join]) -> Iterator[Result]:
    """A join keeps what its inputs have per lineage key: the rows that meet what arrives later.

    Matches:  L op R on l = r and ..., op any join of any number of inputs
    Yields:   keep(L), keep(R), of those that are more than rows of a source as they come

    Why: the pair of both inputs by key merges by addition, whatever the join; what changes above it are the cross terms
        of the changed keys, which other rules say, and they need L.old and R.old or R.new. Kept, these are read instead
        of being computed from the sources, or where the sources have forgotten them.
    Unsafe: as published, without that state, for any join whose partners may come in different runs: h(dL, dR) is empty
        for a row of L now and its partner later. Rows of a source need no state: the source is one.
    Citation: [Fegaras16] section 5 (coGroup), whose merge is exact; its section 8.1 leaves many-to-many joins out.
    """
    for one in m.inputs:
        met = frozenset(c for other in m.inputs if other is not one for c in other.columns)
        if not equi_keys(m.op.condition, frozenset(one.columns), met, m.query):
            continue
        if one.props.reproducible and not _is_there(m, one):
            yield m.keep(one)


def _is_there(m: Match[Join], relation: Relation) -> bool:
    """True for rows of a source as they come, and for an aggregate whose parts can be kept instead."""
    op, inputs = next(m.ways(relation))
    if isinstance(op, Aggregate):
        return m.partial_of(op) is not None
    return isinstance(op, Scan) or (isinstance(op, Filter | Project | RowWise) and _is_there(m, inputs[0]))
