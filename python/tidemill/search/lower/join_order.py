"""The order of an inner join of many inputs: from the delta outward.

The algebra alone does not make a refresh cheap. It is cheap because the join starts at the small delta, or at the rows
that its keys pick, and the joined rows stay few and are broadcast: Spark cannot know that they are few. Without such an
input the order of the text stays, for Spark to plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.cost.costing import FEW_ROWS, is_broadcast
from tidemill.plan.expr import Expr
from tidemill.plan.props import equi_keys
from tidemill.plan.query import Query


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a join: its columns, its estimated rows, and the rows of its relation before filters.

    `leads`: it is a delta, or rows that the keys of one pick, so that the join may start at it. `row_bytes`: of a row.
    """

    columns: frozenset[int]
    rows: float
    base: float
    leads: bool
    row_bytes: float


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The next input to join, with its conjuncts.

    `broadcast`: the rows joined so far are broadcast. `few`: they are so few that they may be
    found first.
    """

    input: int
    condition: tuple[Expr, ...]
    broadcast: bool
    few: bool


def join_order(query: Query, inputs: Sequence[Input], condition: Sequence[Expr]) -> tuple[int, list[JoinStep]]:
    """The number of the first input, and the following steps.

    Greedy: among the inputs connected by an equality, the one that leaves the fewest rows. Each equality divides by the
    smaller of the two sides' base sizes, as for foreign keys.
    """
    leading = [i for i, part in enumerate(inputs) if part.leads]
    first = min(leading, key=lambda i: inputs[i].rows) if leading else 0
    done, rows = [first], inputs[first].rows
    columns, row_bytes = set(inputs[first].columns), inputs[first].row_bytes
    left = list(condition)
    steps: list[JoinStep] = []
    pending = [i for i in range(len(inputs)) if i != first]
    while pending:
        best, best_rows, best_key = pending[0], float("inf"), (2, float("inf"), 0.0)
        for i in pending:
            linked = [j for j in done if equi_keys(condition, inputs[j].columns, inputs[i].columns, query)]
            spread = min((1.0 / max(min(inputs[i].base, inputs[j].base), 1.0) for j in linked), default=1.0)
            out = rows * inputs[i].rows * spread
            rank = out if leading else float(i)
            key = (0 if linked else 1, rank, inputs[i].rows)
            if key < best_key:
                best, best_rows, best_key = i, out, key
        columns |= inputs[best].columns
        now = tuple(c for c in left if query.columns_of(c) <= columns)
        left = [c for c in left if c not in now]
        broadcast = bool(leading) and is_broadcast(rows, row_bytes) and rows < inputs[best].rows
        steps.append(JoinStep(best, now, broadcast, broadcast and rows <= FEW_ROWS))
        pending.remove(best)
        done.append(best)
        rows, row_bytes = best_rows, row_bytes + inputs[best].row_bytes
    return first, steps
