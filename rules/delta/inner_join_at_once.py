from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Built, Node
from tidemill.plan.ops import Join, JoinChange
from tidemill.plan.props import equi_keys
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule


@rule(Join, kind="inner")
def inner_join_at_once(m: Match[Join]) -> Iterator[Result]:
    """The change of an inner join is what one join of all inputs gives more, if these have old rows and changes.

    Matches:  R |x| S |x| T, with several changed inputs, and more than two inputs
    Yields:   delta = (R.old + dR) |x| (S.old + dS) |x| T, without pairs of old rows only

    Why: each input is read once, where `inner_join` reads the large ones in each of its terms: those of facts once for
        each dimension that changed. The signs multiply, as every pair has at least one changed row. Of an input that is
        linked to all changed ones only rows that meet a change are joined. With two inputs, terms read each of them
        once, and join less.
    Unsafe: with the new rows in place of old ones, as a row that came would be there twice.
    Citation: [GriffinLibkin95], all 2^n - 1 terms of the product (R + dR)(S + dS)(T + dT) - RST in one join.
    """
    changed = [r for r in m.inputs if r.changed]
    if len(m.inputs) < 3 or len(changed) < 2:
        return
    inputs: list[Built] = []
    for r in m.inputs:
        inputs += (r.old, r.delta) if r.changed else (r.new,)
    marks = tuple(m.column(("changed", i), "long", "changed") if r.changed else None for i, r in enumerate(m.inputs))
    yield m.delta(Node(JoinChange(m.op.condition, marks, _picked(m)), tuple(inputs)))


def _picked(m: Match[Join]) -> tuple[int, ...]:
    """The inputs that equalities link to each changed one: the keys of the changes pick their rows.

    A change that may come out differently, when it is computed for its keys and once more for itself, picks none.
    """

    def picks(change: Relation, rows: Relation) -> bool:
        linked = equi_keys(m.op.condition, frozenset(change.columns), frozenset(rows.columns), m.query)
        return bool(linked) and change.props.reproducible

    return tuple(
        i for i, rows in enumerate(m.inputs) if all(picks(r, rows) for r in m.inputs if r.changed and r is not rows)
    )
