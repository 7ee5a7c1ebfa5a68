"""A bag interpreter for wire plans: what the JVM and Spark would do, over Python lists, in milliseconds.

It exists to find wrong algebra without Spark. Values are those of `tests.model.scalars`. Rows are tuples; relations are
bags. What Spark leaves open (ties under a limit, `first`) is decided at random, so that a plan which relies on a lucky
choice fails.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any, TypeAlias
from zlib import crc32

from tests.model.scalars import Env, Row, Scalars, less, same
from tidemill.plan.expr import Fn
from tidemill.plan.query import Query
from tidemill.wire.expressions import expr_from_json

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Relation:
    """Columns by id, and rows."""

    columns: tuple[int, ...]
    rows: list[Row]

    def envs(self) -> list[dict[int, Any]]:
        return [dict(zip(self.columns, r, strict=True)) for r in self.rows]

    def bag(self, columns: Sequence[int]) -> Counter[Row]:
        at = [self.columns.index(c) for c in columns]
        return Counter(tuple(r[i] for i in at) for r in self.rows)


@dataclass
class World:
    """What leaves read: sources by (number, moment), changes by (number, from, to), states, staged steps, the view's
    content and its change that is held back.

    `before`: of a state that stands later than the content, how many pieces were there at the content's moment.
    """

    query: Query
    sources: Mapping[tuple[int, int], Sequence[Record]]
    changes: Mapping[tuple[int, int, int], Sequence[tuple[Record, int]]] = field(default_factory=dict)
    states: Mapping[str, Sequence[Sequence[Record]]] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    held: Sequence[Record] = ()
    staged: dict[str, list[Record]] = field(default_factory=dict)
    result: Sequence[Record] = ()
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def clock(self) -> dict[int, Any]:
        """The value of the clock at each moment; empty if the query has none."""
        return {t: rows[0]["now"] for (n, t), rows in self.sources.items() if n == self.query.clock}


def run(node: Mapping[str, Any], world: World) -> Relation:
    """The rows of a wire node, in an arbitrary order."""
    return _Interpreter(world).node(node)


def known() -> frozenset[str]:
    """Names of the nodes that have a meaning here."""
    return frozenset(name.removeprefix("op_") for name in vars(_Interpreter) if name.startswith("op_"))


class _Interpreter:
    def __init__(self, world: World) -> None:
        self.world = world
        self.scalars = Scalars(world.query, world.clock)
        self.kept = dict(_kept_in_jvm(world.query.document["root"]))

    def node(self, node: Mapping[str, Any]) -> Relation:
        inputs = [self.node(i) for i in node.get("inputs", ())]
        read: Callable[..., Relation] = getattr(self, "op_" + node["op"])
        result = read(node, *inputs)
        assert len(set(result.columns)) == len(result.columns), f"{node['op']} gives out a column twice"
        assert all(len(r) == len(result.columns) for r in result.rows)
        self.world.dice.shuffle(result.rows)
        return result

    # -- leaves -------------------------------------------------------------------------------------------------------

    def op_scan(self, node: Mapping[str, Any]) -> Relation:
        at = max(t for _, t in self.world.sources) if node.get("at") is None else node["at"]
        return _read(node["columns"], self.world.sources[node["source"], at])

    def op_changes(self, node: Mapping[str, Any]) -> Relation:
        records = self.world.changes[node["source"], node["from"], node["to"]]
        rows = _read(node["columns"], [r for r, _ in records])
        counted = [(*row, n) for row, (_, n) in zip(rows.rows, records, strict=True)]
        return Relation((*rows.columns, node["count"]), counted)

    def op_state(self, node: Mapping[str, Any]) -> Relation:
        pieces = self.world.states[node["name"]]
        before = self.world.before.get(node["name"], len(pieces))
        if part := node.get("part"):
            pieces = pieces[:before] if part == "before" else pieces[before:]
        pieces = pieces[node.get("first", 0) : node.get("end")]
        rows = _read(node["columns"], [record for piece in pieces for record in piece])
        among = node.get("among")
        if among is None:
            return rows
        wanted = {record[among["field"]] for record in self.world.staged[among["step"]]} - {None}
        if among["nulls"]:
            wanted.add(None)
        place = rows.columns.index(among["column"])
        return Relation(rows.columns, [row for row in rows.rows if row[place] in wanted])

    def op_staged(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.staged[node["step"]])

    def op_held(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.held)

    def op_result(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.result)

    def op_empty(self, node: Mapping[str, Any]) -> Relation:
        return Relation(tuple(c for c, _ in node["columns"]), [])

    # -- linear -------------------------------------------------------------------------------------------------------

    def op_filter(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        return Relation(
            rows.columns, [r for r, env in zip(rows.rows, rows.envs(), strict=True) if self._all(node, env)]
        )

    def op_project(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        columns = [(c, expr_from_json(e)) for c, e in node["columns"]]
        out = []
        for env in rows.envs():
            values = [self.scalars.value(e, env) for _, e in columns]
            exploded = [i for i, (_, e) in enumerate(columns) if isinstance(e, Fn) and e.name == "explode"]
            assert len(exploded) <= 1
            if not exploded:
                out.append(tuple(values))
            for i in exploded:
                out.extend((*values[:i], x, *values[i + 1 :]) for x in values[i])
        return Relation(tuple(c for c, _ in columns), out)

    def op_union(self, node: Mapping[str, Any], *inputs: Relation) -> Relation:
        rows = [r for ids, part in zip(node["from"], inputs, strict=True) for r in part.bag(ids).elements()]
        return Relation(tuple(node["columns"]), rows)

    def op_replicate(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        count = expr_from_json(node["count"])
        out = []
        for row, env in zip(rows.rows, rows.envs(), strict=True):
            n = self.scalars.value(count, env)
            assert n > 0, "a negative count reached a plain bag"
            out.extend([row] * n)
        return Relation(rows.columns, out)

    # -- joins --------------------------------------------------------------------------------------------------------

    def op_join(self, node: Mapping[str, Any], left: Relation, right: Relation) -> Relation:
        assert not set(left.columns) & set(right.columns), "the sides of a join share a column"
        met_right: set[int] = set()
        out: list[Row] = []
        for row, env in zip(left.rows, left.envs(), strict=True):
            met = [j for j, other in enumerate(right.envs()) if self._all(node, {**env, **other})]
            met_right.update(met)
            match node["kind"]:
                case "inner":
                    out.extend(row + right.rows[j] for j in met)
                case "left" | "full":
                    nulls = (None,) * len(right.columns)
                    out.extend([row + right.rows[j] for j in met] or [row + nulls])
                case "semi" | "anti":
                    out.extend([row] if bool(met) == (node["kind"] == "semi") else [])
                case "existence":
                    out.append((*row, bool(met)))
                case "right":
                    out.extend(row + right.rows[j] for j in met)
        if node["kind"] in {"right", "full"}:
            nulls = (None,) * len(left.columns)
            out.extend(nulls + r for j, r in enumerate(right.rows) if j not in met_right)
        match node["kind"]:
            case "semi" | "anti":
                return Relation(left.columns, out)
            case "existence":
                return Relation((*left.columns, node["exists"]), out)
        return Relation(left.columns + right.columns, out)

    def _all(self, node: Mapping[str, Any], env: Env) -> bool:
        return all(self.scalars.value(expr_from_json(c), env) is True for c in node["condition"])

    # -- the rest -----------------------------------------------------------------------------------------------------

    def op_aggregate(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        keys = [(c, expr_from_json(e)) for c, e in node["keys"]]
        calls = [(c, expr_from_json(e)) for c, e in node["aggregates"]]
        groups: dict[Row, list[Env]] = defaultdict(list)
        if not keys:
            groups[()] = []
        for env in rows.envs():
            groups[tuple(self.scalars.value(e, env) for _, e in keys)].append(env)
        out = [(*key, *(self.scalars.aggregate(e, envs) for _, e in calls)) for key, envs in groups.items()]
        return Relation(tuple(c for c, _ in (*keys, *calls)), out)

    def op_limit(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        ranked = self._ordered(node, rows)
        skip = self.scalars.value(expr_from_json(node["offset"]), {}) if node.get("offset") else 0
        wanted = self.scalars.value(expr_from_json(node["limit"]), {})
        return Relation(rows.columns, [r for _, r in ranked[skip : skip + wanted]])

    def _ordered(self, node: Mapping[str, Any], rows: Relation) -> list[tuple[Env, Row]]:
        """The rows in the node's order; rows that tie are shuffled."""
        order = [(expr_from_json(e), up, first) for e, up, first in node["order"]]
        ranked: list[tuple[Env, Row]] = [
            *zip(rows.envs(), rows.rows, strict=True)
        ]  # shuffled before, and sorting is stable

        def compare(a: tuple[Env, Row], b: tuple[Env, Row]) -> int:
            for expr, up, first in order:
                x, y = self.scalars.value(expr, a[0]), self.scalars.value(expr, b[0])
                if same(x, y):
                    continue
                if x is None or y is None:
                    return -1 if (x is None) == first else 1
                return -1 if less(x, y) == up else 1
            return 0

        ranked.sort(key=cmp_to_key(compare))
        return ranked

    def _partitions(self, node: Mapping[str, Any], rows: Relation) -> list[list[tuple[tuple[Any, ...], Row]]]:
        """The ordered rows of each partition, each with its values in the order."""
        by, order = [expr_from_json(e) for e in node["partition"]], [expr_from_json(e) for e, _, _ in node["order"]]
        found: dict[Row, list[tuple[tuple[Any, ...], Row]]] = defaultdict(list)
        for env, row in self._ordered(node, rows):
            key = tuple(self.scalars.value(e, env) for e in by)
            found[key].append((tuple(self.scalars.value(e, env) for e in order), row))
        return [*found.values()]

    def op_numbered(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        """Number and rank in the order of the partition, and the number of the last row that ties."""
        wide = []
        for partition in self._partitions(node, rows):
            values = [value for value, _ in partition]
            last = {value: n for n, value in enumerate(values, 1)}
            ranked = [(*row, n, values.index(value) + 1, last[value]) for n, (value, row) in enumerate(partition, 1)]
            wide += ranked if "through" in node else [row[:-1] for row in ranked]
        added = [node[name] for name in ("number", "rank", "through") if name in node]
        return Relation((*rows.columns, *added), wide)

    def op_sort(self, _node: Mapping[str, Any], rows: Relation) -> Relation:
        return rows

    def op_opaque(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        """An operator by its number in the query, with the columns that are asked for here."""
        meant = self.kept[node["node"]]
        if meant["op"] != "opaque":
            read: Callable[..., Relation] = getattr(self, "op_" + meant["op"])
            return read({**meant, "columns": node["columns"]}, rows)
        # Any operator without a rule will do: how many rows share the value of the column of the lowest id.
        first = min(rows.columns)
        return self._sizes(node, rows, [(env[first],) for env in rows.envs()])

    def op_window(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        """How many rows the partition has; with an order, a number made from the rows that its functions read."""
        if node.get("order"):
            return self._framed(node, rows)
        by = [expr_from_json(e) for e in node["partition"]]
        return self._sizes(node, rows, [tuple(self.scalars.value(e, env) for e in by) for env in rows.envs()])

    def _framed(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        new = [c for c in node["columns"] if c not in rows.columns]
        wide = []
        for partition in self._partitions(node, rows):
            found = [self._read_around(call, partition, rows.columns) for call in node["calls"]]
            for (_, row), *values in zip(partition, *found, strict=True):
                wide.append((*row, *(sum(values) for _ in new)))
        every = Relation((*rows.columns, *new), wide)
        return Relation(tuple(node["columns"]), list(every.bag(node["columns"]).elements()))

    def _read_around(
        self, call: Mapping[str, Any], partition: list[tuple[tuple[Any, ...], Row]], columns: tuple[int, ...]
    ) -> list[int]:
        """A number per row, made from the rows that a function reads for it, and from no others."""
        order = [value for value, _ in partition]
        values = [crc32(str(value).encode()) for value in order]
        if call.get("since"):  # the last value that is not NULL
            expr, last, known = expr_from_json(call["since"]), 0, []
            for _, row in partition:
                value = self.scalars.value(expr, dict(zip(columns, row, strict=True)))
                last = last if value is None else crc32(str(value).encode())
                known.append(last)
            return known
        before, behind = call["rows"]
        if before is not None:
            return [sum(values[max(0, n - before) : n + behind + 1]) for n in range(len(values))]
        if call["frame"] == "range":  # a sum of all rows before, and of those that tie
            through = {value: n for n, value in enumerate(order)}
            return [sum(values[: through[value] + 1]) for value in order]
        return [sum(n * v for n, v in enumerate(values[: i + 1], 1)) for i in range(len(values))]

    def _sizes(self, node: Mapping[str, Any], rows: Relation, keys: Sequence[Row]) -> Relation:
        new = [c for c in node["columns"] if c not in rows.columns]
        sizes = Counter(keys)
        wide = [(*r, *(sizes[key] for _ in new)) for r, key in zip(rows.rows, keys, strict=True)]
        every = Relation((*rows.columns, *new), wide)
        return Relation(tuple(node["columns"]), list(every.bag(node["columns"]).elements()))

    def op_row_wise(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        """Each row twice, told apart by 0 and 1 in the new columns; a row without NULL once more."""
        new = [c for c in node["columns"] if c not in rows.columns]
        wide = [(*r, *(i for _ in new)) for r in rows.rows for i in ((0, 1) if None in r else (0, 1, 1))]
        every = Relation((*rows.columns, *new), wide)
        return Relation(tuple(node["columns"]), list(every.bag(node["columns"]).elements()))


def _kept_in_jvm(node: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if "node" in node:
        yield node["node"], node
    for below in node.get("inputs", ()):
        yield from _kept_in_jvm(below)


def _read(columns: Sequence[Sequence[Any]], records: Sequence[Record]) -> Relation:
    return Relation(tuple(c[0] for c in columns), [tuple(r[c[1]] for c in columns) for r in records])
