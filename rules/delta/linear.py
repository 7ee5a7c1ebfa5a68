from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.ops import Filter, Project, QueryOp, RowWise, Union
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.rule.result import Result
from tidemill.rule.rule import rule
from tidemill.tvr.form import NEW


@rule(Filter, Project, RowWise, Union)
def linear(m: Match[QueryOp]) -> Iterator[Result]:
    """A linear operator's delta is the operator on the deltas.

    Matches:  f(R, S, ...)        Yields:  delta = f(delta R, delta S, ...)

    Why: filter, projection, UNION ALL, grouping sets and generators treat each row alone, so signs pass through.
    Unsafe: for non-deterministic expressions: a retraction would draw another value than the insertion did. CREATE
        rejects those. For expressions that read the clock, if it moved: old rows change too (`moving_bound`).
    Citation: [GriffinLibkin95] section 3; [Tempura] section 4.1.
    """
    if not m.moves:
        yield m.delta(node(m.at(NEW), *(i.delta for i in m.inputs)))
