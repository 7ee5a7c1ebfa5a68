"""The order in which an inner join of many inputs is carried out: from the delta outward.

The algebra alone gains nothing; starting at the small delta, keeping the joined delta small and broadcasting it is what
makes a refresh cheap. Without a delta among the inputs the order of the text stands: Spark plans that as it always did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.cost.costing import BROADCAST_ROWS
from tidemill.plan.expr import Expr
from tidemill.plan.props import equi_keys
from tidemill.plan.query import Query


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a join: its columns, its estimated rows, and those of its relation before filters."""

    columns: frozenset[int]
    rows: float
    base: float
    signed: bool


@dataclass(frozen=True, slots=True)
class JoinStep:
    """Join this input next, under these conjuncts; `broadcast` asks for what is joined so far to be broadcast."""

    input: int
    condition: tuple[Expr, ...]
    broadcast: bool


def join_order(query: Query, inputs: Sequence[Input], condition: Sequence[Expr]) -> tuple[int, list[JoinStep]]:
    """The first input, and the steps that follow.

    Greedy: among the inputs that an equality connects, the one that leaves the fewest rows; each equality divides by
    the smaller of the two sides' base sizes, as where keys meet foreign keys.
    """
    signed = [i for i, part in enumerate(inputs) if part.signed]
    first = min(signed, key=lambda i: inputs[i].rows) if signed else 0
    done, rows = [first], inputs[first].rows
    columns = set(inputs[first].columns)
    left = list(condition)
    steps: list[JoinStep] = []
    pending = [i for i in range(len(inputs)) if i != first]
    while pending:
        best, best_rows, best_key = pending[0], float("inf"), (2, float("inf"), 0.0)
        for i in pending:
            linked = [j for j in done if equi_keys(condition, inputs[j].columns, inputs[i].columns, query)]
            spread = min((1.0 / max(min(inputs[i].base, inputs[j].base), 1.0) for j in linked), default=1.0)
            out = rows * inputs[i].rows * spread
            rank = out if signed else float(i)
            key = (0 if linked else 1, rank, inputs[i].rows)
            if key < best_key:
                best, best_rows, best_key = i, out, key
        columns |= inputs[best].columns
        now = tuple(c for c in left if query.columns_of(c) <= columns)
        left = [c for c in left if c not in now]
        steps.append(JoinStep(best, now, bool(signed) and rows <= BROADCAST_ROWS and rows < inputs[best].rows))
        pending.remove(best)
        done.append(best)
        rows = best_rows
    return first, steps
