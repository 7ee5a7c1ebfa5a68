"""Finds the places of rows that leave a result without a search: the delta's own step observes them.

Where the delta is the difference of new rows and rows read from the content, each of the latter has a place: its file,
and its number in it. Places go with the rows through operators that keep rows as they are, and through files that one
step writes for another. Per netted value there remains one place, and the number of places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, fn
from tidemill.runtime.content.leaving import File, Found, ResultColumn
from tidemill.runtime.content.row_expressions import Ids, is_negative, observed_sum, observed_values
from tidemill.search.contract.stored import MOST_FOUND, MOST_PLACED_FILES
from tidemill.wire import nodes
from tidemill.wire.expressions import named_from_json
from tidemill.wire.nodes import WireNode

PLACES = "places"
"""The observation of the places of rows that leave, in the step that writes the delta."""
PLACE = "_tidemill_place"
"""The field of the place, in what a step writes of the content for later ones."""
FILE_PLACES = 1 << 40
"""A place is the number of a file, from 1, times this, plus the number of a row in it."""
Columns = Sequence[tuple[int, str]]
"""Columns that a step writes, as (id, field)."""


@dataclass(frozen=True, slots=True)
class Sought:
    """The things that the steps of a run are to learn of the rows that leave.

    `observed`: the columns whose values they tell; `files`: the result, in which they tell places.
    """

    observed: tuple[ResultColumn, ...] = ()
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan of rows of which some have places: `place` gives it, or NULL, from the columns `carried`.

    `fields`: the fields of the result that columns show as they are, in rows with places.
    """

    plan: WireNode
    place: Expr
    carried: tuple[int, ...]
    fields: Mapping[int, str]


class Places:
    """Adds places of the content's rows to the plans of a run's steps, in their order; `files`: those of the result."""

    def __init__(self, files: Sequence[File]) -> None:
        self._paths = {str(f["path"]).rsplit("/", 1)[-1]: str(f["path"]) for f in files}
        self._possible = 0 < len(files) <= MOST_PLACED_FILES and len(self._paths) == len(files)
        self._ids = Ids()
        self._noted: dict[str, dict[str, str]] = {}

    def noting(self, step: str, plan: WireNode, columns: Columns) -> tuple[WireNode, int] | None:
        """Returns the plan of a step that later steps read, with a column of places, and this column; None if its rows
        are not rows of the content. `columns`: those that it writes."""
        if not self._possible or (found := self._rows(plan)) is None:
            return None
        self._noted[step] = {field: found.fields[c] for c, field in columns if c in found.fields}
        place = self._ids.one()
        return nodes.project([*nodes.same(c for c, _ in columns), (place, found.place)], found.plan), place

    def netting(self, plan: WireNode, columns: Columns) -> WireNode | None:
        """Returns the plan of a delta with the places of the rows that leave observed; None if nothing tells them.

        The content's row of a value is known where it has only one of that value. `columns`: those of the view, and
        last the counts.
        """
        if not self._possible:
            return None
        (*shown, (count, _)), (place, held) = columns, self._ids.fresh(2)
        netted = self._netted(plan, place, held, dict(shown))
        if netted is None:
            return None
        one = fn("and", fn("=", Col(count), Lit(-1, "long")), fn("=", Col(held), ONE))
        leaves = is_negative(count)
        told = fn("if", one, Col(place), Lit(None, "long"))
        untold = fn("if", fn("and", leaves, fn("not", one)), ONE, ZERO)
        metrics = [("told", observed_values(told, MOST_FOUND)), ("untold", observed_sum(untold))]
        return nodes.observe(PLACES, metrics, netted)

    def found(self, observed: Mapping[str, Any], deletes: int) -> Found | None:
        """Returns the places of all rows that leave, from the observation of `netting`; None if some are not known."""
        told = observed.get("told")
        if told is None or int(observed.get("untold") or 0) or len(told) != deletes:
            return None
        paths, rows = list(self._paths.values()), dict[str, list[int]]()
        for place in sorted(told):
            rows.setdefault(paths[place // FILE_PLACES - 1], []).append(place % FILE_PLACES)
        return Found({path: tuple(numbers) for path, numbers in rows.items()}, 0)

    def _netted(self, plan: WireNode, place: int, held: int, shown: Mapping[int, str]) -> WireNode | None:
        """Returns a plan that adds up the counts of each value with, per value, a place and the number of places."""
        match plan:
            case {"op": "filter"} | {"op": "project"}:
                below = self._netted(nodes.inputs_of(plan)[0], place, held, shown)
                return None if below is None else _passing(plan, (place, held), below)
            case {"op": "aggregate"}:
                rows = self._rows(nodes.inputs_of(plan)[0])
                if rows is None or not shown.items() <= rows.fields.items():
                    return None
                more = [(place, fn("max", rows.place)), (held, fn("count", rows.place))]
                return nodes.with_aggregates(plan, more, rows.plan)
            case _:
                return None

    def _rows(self, plan: WireNode) -> Placed | None:
        """Returns a plan with the places of its rows, if some are rows of the content."""
        inputs = nodes.inputs_of(plan)
        match plan:
            case {"op": "result"}:
                path, row = self._ids.fresh(2)
                stored = nodes.stored_columns(plan)
                fields = {c: field for c, field, _ in stored}
                return Placed(nodes.result(stored, path, row), self._place(path, row), (path, row), fields)
            case {"op": "staged", "step": step} if step in self._noted:
                place = self._ids.one()
                stored, known = nodes.stored_columns(plan), self._noted[step]
                fields = {c: known[field] for c, field, _ in stored if field in known}
                return Placed(nodes.staged(step, [*stored, (place, PLACE, "long")]), Col(place), (place,), fields)
            case {"op": "filter"} | {"op": "project"} | {"op": "join", "kind": "semi" | "anti"}:
                if (rows := self._rows(inputs[0])) is None:
                    return None
                passed = _passing(plan, rows.carried, rows.plan, *inputs[1:])
                return replace(rows, plan=passed, fields=_shown(plan, rows.fields))
            case {"op": "union", "columns": columns, "from": branches}:
                return self._united(columns, list(zip(branches, inputs, strict=True)))
            case _:
                return None

    def _united(self, columns: Sequence[int], branches: Sequence[tuple[Sequence[int], WireNode]]) -> Placed | None:
        found = [self._rows(plan) for _, plan in branches]
        if not any(found):
            return None
        fields = [
            {c: r.fields.get(i, "") for c, i in zip(columns, ids, strict=True)}
            for (ids, _), r in zip(branches, found, strict=True)
            if r is not None
        ]
        agreed = {c: f for c, f in fields[0].items() if f and all(other[c] == f for other in fields)}
        place, parts = self._ids.one(), list[tuple[Sequence[int], WireNode]]()
        for (ids, plan), rows in zip(branches, found, strict=True):
            own = self._ids.one()
            told = Cast(Lit(None, "void"), "long") if rows is None else rows.place
            parts.append(
                ((*ids, own), nodes.project([*nodes.same(ids), (own, told)], plan if rows is None else rows.plan))
            )
        return Placed(nodes.union((*columns, place), *parts), Col(place), (place,), agreed)

    def _place(self, path: int, row: int) -> Expr:
        names = fn("array", *(Lit(name, "string") for name in self._paths))
        name = fn("substring_index", Col(path), Lit("/", "string"), Lit(-1, "integer"))
        number = fn("nullif", fn("array_position", names, name), ZERO)
        return fn("+", fn("*", number, Lit(FILE_PLACES, "long")), Col(row))


def _passing(plan: WireNode, columns: Sequence[int], *inputs: WireNode) -> WireNode:
    """Returns an operator over other inputs, of which it lets these columns of the first pass."""
    if plan["op"] == "project":
        return nodes.with_columns(plan, nodes.same(columns), inputs[0])
    return nodes.over(plan, inputs)


def _shown(plan: WireNode, fields: Mapping[int, str]) -> Mapping[int, str]:
    """Returns the fields that an operator's columns show, from those of its first input's columns."""
    if plan["op"] != "project":
        return fields
    columns = named_from_json(plan["columns"])
    return {c: fields[e.id] for c, e in columns if isinstance(e, Col) and e.id in fields}
