"""Equality of values of every type within every type, against a notion of equality that is written in Python."""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, rows
from tests.bridge.test_nodes import fn, lit
from tidemill.plan.datatype import type_to_text
from tidemill.plan.expr import Col
from tidemill.plan.grouping import identity, key
from tidemill.wire.expressions import expr_to_json

SEED = int(os.environ.get("TIDEMILL_SEED", "20260"))
TIME = "spark.sql.timeType.enabled"
ROWS = 12
NESTED = 24
GROUPED = 8


@dataclass(frozen=True, slots=True)
class Value:
    """A value as SQL; what it is as a value of a row, and what its query compares: NULL is None."""

    sql: str
    same: Hashable
    equal: Hashable


Make: TypeAlias = Callable[[random.Random], Value]
Change: TypeAlias = Callable[[random.Random, Any], Any]


class Type(ABC):
    """A type: its SQL, a random tree of it, another tree that is much like one, and the value of a tree."""

    sql: str

    @abstractmethod
    def draw(self, dice: random.Random) -> Any: ...

    @abstractmethod
    def near(self, dice: random.Random, tree: Any) -> Any: ...

    def value(self, tree: Any) -> Value:
        """NULL is the tree None."""
        return Value(f"CAST(NULL AS {self.sql})", None, None) if tree is None else self.known(tree)

    @abstractmethod
    def known(self, tree: Any) -> Value: ...


class Leaf(Type):
    """A type with a few values, some of them alike; a tree is the number of one."""

    def __init__(self, sql: str, *values: Value) -> None:
        self.sql, self.values = sql, values

    def draw(self, dice: random.Random) -> Any:
        return dice.choice([*range(len(self.values)), None])

    def near(self, dice: random.Random, tree: Any) -> Any:
        return self.draw(dice)

    def known(self, tree: Any) -> Value:
        found: Value = self.values[tree]
        return found


class Struct(Type):
    """Fields with names that need quotes."""

    NAMES = ("a b", "x.y", "`q`", "ä")

    def __init__(self, *fields: Type) -> None:
        self.fields = fields
        names = (name.replace("`", "``") for name in self.NAMES)
        self.sql = f"STRUCT<{', '.join(f'`{n}`: {f.sql}' for n, f in zip(names, fields, strict=False))}>"

    def draw(self, dice: random.Random) -> Any:
        return tuple(f.draw(dice) for f in self.fields) if dice.random() < 0.9 else None

    def near(self, dice: random.Random, tree: Any) -> Any:
        if tree is None:
            return self.draw(dice)
        at = dice.randrange(len(tree))
        return (*tree[:at], self.fields[at].near(dice, tree[at]), *tree[at + 1 :])

    def known(self, tree: Any) -> Value:
        found = [f.value(t) for f, t in zip(self.fields, tree, strict=True)]
        named = ", ".join(f"'{n}', {v.sql}" for n, v in zip(self.NAMES, found, strict=False))
        return Value(f"named_struct({named})", tuple(v.same for v in found), tuple(v.equal for v in found))


class Array(Type):
    def __init__(self, element: Type) -> None:
        self.element, self.sql = element, f"ARRAY<{element.sql}>"

    def draw(self, dice: random.Random) -> Any:
        return tuple(self.element.draw(dice) for _ in range(dice.randint(0, 3))) if dice.random() < 0.9 else None

    def near(self, dice: random.Random, tree: Any) -> Any:
        if not tree:
            return self.draw(dice)
        at = dice.randrange(len(tree))
        match dice.randrange(4):
            case 0:
                return tree[::-1]
            case 1:
                return tree[:at] + tree[at + 1 :]
        return (*tree[:at], self.element.near(dice, tree[at]), *tree[at + 1 :])

    def known(self, tree: Any) -> Value:
        found = [self.element.value(t) for t in tree]
        sql = f"array({', '.join(v.sql for v in found)})" if found else f"CAST(array() AS {self.sql})"
        return Value(sql, ("array", *(v.same for v in found)), ("array", *(v.equal for v in found)))


class Map(Type):
    def __init__(self, key: Type, element: Type) -> None:
        self.key, self.element, self.sql = key, element, f"MAP<{key.sql}, {element.sql}>"

    def draw(self, dice: random.Random) -> Any:
        if dice.random() < 0.1:
            return None
        keys = {self.key.value(t).same: t for t in (self.key.draw(dice) for _ in range(dice.randint(0, 3)))}
        return tuple((t, self.element.draw(dice)) for same, t in keys.items() if same is not None)

    def near(self, dice: random.Random, tree: Any) -> Any:
        if not tree:
            return self.draw(dice)
        entries = dice.sample(tree, len(tree))
        if dice.random() < 0.7:
            k, v = entries.pop()
            entries.append((k, self.element.near(dice, v)))
        return tuple(entries)

    def known(self, tree: Any) -> Value:
        found = [(self.key.value(k), self.element.value(v)) for k, v in tree]
        sql = f"map({', '.join(f'{k.sql}, {v.sql}' for k, v in found)})" if found else f"CAST(map() AS {self.sql})"
        same, equal = (frozenset((k.same, v.same) for k, v in found), frozenset((k.equal, v.equal) for k, v in found))
        return Value(sql, same, equal)


def leaf(sql: str, *texts: str | tuple[str, Hashable] | tuple[str, Hashable, Hashable]) -> Leaf:
    """A type and its values: as SQL, what it is (the SQL, if left out), and what it is equal to (the same)."""
    found = []
    for text in texts:
        if isinstance(text, str):
            found.append(Value(f"CAST({text} AS {sql})", text, text))
        else:
            found.append(Value(f"CAST({text[0]} AS {sql})", text[1], text[-1]))
    return Leaf(sql, *found)


STAMPS = ("'2024-01-01 00:00:00.123456'", "'2024-01-01 00:00:00.123999'", "'1969-12-31 23:59:59.999999'")
NUMBERS = (("0", 0.0), ("'-0.0'", 0.0), ("'NaN'", "NaN"), ("'-Infinity'", "-inf"), "1.5", "1.25")
TEXTS = ("''", "'a'", "'A'", "'a '", "'ä'", "'Ä'")
KEYS = (
    leaf("BOOLEAN", "true", "false"),
    leaf("TINYINT", "1", "-1"),
    leaf("SMALLINT", "1", "-300"),
    leaf("INT", "1", "-70000"),
    leaf("BIGINT", "1", "5000000000"),
    leaf("FLOAT", *NUMBERS),
    leaf("DOUBLE", *NUMBERS, "'1e-300'"),
    leaf("DECIMAL(10, 2)", ("1", "1.00"), ("1.00", "1.00"), "1.01", "-1.01"),
    leaf("DECIMAL(38, 6)", "1", "12345678901234567890123456789.000001", "12345678901234567890123456789.000002"),
    leaf("STRING", *TEXTS),
    leaf("BINARY", "X''", "X'00'", "X'0000'", "X'FF61'"),
    leaf("DATE", "'2024-01-01'", "'0001-01-01'"),
    leaf("TIMESTAMP", *STAMPS),
    leaf("TIMESTAMP_NTZ", *STAMPS),
    leaf("TIME(6)", "'00:00:00.000001'", "'23:59:59.123456'", "'23:59:59.123457'"),
    leaf("INTERVAL YEAR TO MONTH", ("INTERVAL '1' YEAR", 12), ("INTERVAL '12' MONTH", 12), "INTERVAL '1' MONTH"),
    leaf("INTERVAL DAY TO SECOND", ("INTERVAL '1' DAY", 24), ("INTERVAL '24' HOUR", 24), "INTERVAL '0.000001' SECOND"),
)  # fmt: skip
VARIANTS = leaf(
    "VARIANT",
    ("parse_json('1')", 1),
    ("CAST(1BD AS DECIMAL(10, 2))", ("decimal", 1)),
    ("parse_json('1.0')", ("decimal", 1)),
    ("1Y", 1),
    ("1L", 1),
    ("parse_json('1e0')", ("double", 1)),
    ("parse_json('\"1\"')", "1"),
    ("parse_json('null')", "null"),
    ('parse_json(\'{"b": [1, null], "a": "x"}\')', "object"),
    ('parse_json(\'{"a":"x","b":[1,null]}\')', "object"),
    ("to_variant_object(named_struct('b', array(1, NULL), 'a', 'x'))", "object"),
    ('parse_json(\'{"a": "x", "b": [null, 1]}\')', "turned"),
    ('parse_json(\'{"a": "x", "b": [1, null], "c": null}\')', "longer"),
    ("TIMESTAMP'2024-01-01 00:00:00.123456'", "456"),
    ("TIMESTAMP'2024-01-01 00:00:00.123999'", "999"),
    ("TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", "NTZ"),
    ("DATE'2024-01-01'", "date"),
    ("X'61'", "binary"),
    ("float('-0.0')", ("float", 0)),
    ("float('0')", ("float", 0)),
)
COLLATED = (
    leaf("STRING COLLATE UTF8_LCASE", *((t, t, t.lower()) for t in TEXTS)),
    leaf("STRING COLLATE UNICODE_CI_RTRIM", *((t, t, t.lower().replace(" ", "")) for t in TEXTS)),
)
LEAVES = (*KEYS, VARIANTS, *COLLATED)
INTERVALS = leaf(
    "INTERVAL", ("make_interval(0, 1)", "month"), ("make_interval(0, 0, 0, 30)", "days"), ("make_interval()", "0")
)
"""No file holds them."""


def containers(dice: random.Random, inner: Type) -> Iterator[Type]:
    """A type in each of the types that hold others."""
    other = dice.choice(LEAVES)
    yield Array(inner)
    yield Struct(inner, other)
    yield Map(dice.choice(KEYS), inner)
    if inner in KEYS:
        yield Map(inner, other)


def nested(dice: random.Random, depth: int) -> Type:
    """A random type with others within."""
    return dice.choice(list(containers(dice, dice.choice(LEAVES) if depth == 0 else nested(dice, depth - 1))))


def column(dice: random.Random, kind: Type) -> list[Value]:
    """Values of a type, most of them much like the one before."""
    trees = [kind.draw(dice)]
    while len(trees) < ROWS:
        trees.append(kind.near(dice, trees[-1]) if dice.random() < 0.8 else kind.draw(dice))
    return [kind.value(tree) for tree in trees]


def query(columns: Sequence[Sequence[Value]]) -> str:
    """The rows, numbered by `i`."""
    arrays = ", ".join(f"array({', '.join(v.sql for v in values)}) AS v{c}" for c, values in enumerate(columns))
    items = ", ".join(f"v{c}[i] AS v{c}" for c, _ in enumerate(columns))
    return f"SELECT i, {items} FROM (SELECT {arrays}), (SELECT explode(sequence(0, {ROWS - 1})) AS i)"


def classes(tokens: Sequence[Hashable]) -> list[list[int]]:
    """The numbers of equal elements together."""
    found = defaultdict[Hashable, list[int]](list)
    for number, token in enumerate(tokens):
        found[token].append(number)
    return sorted(found.values())


@pytest.fixture(scope="module")
def stored(spark: SparkSession, call: Call, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Document]]:
    """Types with values of each, and the query document of a file that holds them."""
    dice = random.Random(SEED)
    kinds = [*LEAVES, *(outer for inner in LEAVES for outer in containers(dice, inner))]
    kinds += [nested(dice, depth) for depth in (1, 2) for _ in range(NESTED // 2)]
    columns = [(kind, column(dice, kind)) for kind in kinds]
    path = tmp_path_factory.mktemp("values")
    spark.conf.set(TIME, "true")
    spark.sql(query([values for _, values in columns])).write.mode("overwrite").parquet(str(path))
    document = analyze(call, f"SELECT * FROM parquet.`{path}`")
    yield columns, document
    call("release", query=document["query"])
    spark.conf.unset(TIME)


@pytest.mark.parametrize("function", ["tidemill_identity", "tidemill_key"])
def test_bytes_are_equal_where_values_are(call: Call, stored: tuple[Any, Document], function: str) -> None:
    columns, document = stored
    (number, _), *ids = document["output"]
    forms = [[1000 + c, fn(function, {"col": c})] for c, _ in ids]
    plan = {"op": "project", "columns": [[number, {"col": number}], *forms], "inputs": [document["root"]]}
    found = sorted(rows(call, document, plan, [number, *(1000 + c for c, _ in ids)]), key=lambda row: int(row[0]))
    for (kind, values), given in zip(columns, list(zip(*found, strict=True))[1:], strict=True):
        tokens = [v.same if function == "tidemill_identity" else v.equal for v in values]
        assert classes(given) == classes(tokens), f"{kind.sql}: {[v.sql for v in values]}"
        assert [g is None for g in given] == [t is None for t in tokens]


@pytest.mark.parametrize("comparison", [identity, lambda c, kind: key(Col(c), kind)], ids=["identity", "key"])
def test_groups_are_equal_values(call: Call, stored: tuple[Any, Document], comparison: Callable[..., Any]) -> None:
    columns, document = stored
    kinds = {c["id"]: type_to_text(c["type"]) for c in document["columns"]}
    (number, _), *ids = document["output"]
    dice = random.Random(SEED + 1)
    chosen = dice.sample(list(zip(columns, (c for c, _ in ids), strict=True)), GROUPED)
    parts = []
    for at, (_, c) in enumerate(chosen):
        keys = [[2000, expr_to_json(comparison(c, kinds[c]))]]
        grouped = {
            "op": "aggregate", "keys": keys, "aggregates": [[2001, fn("collect_list", {"col": number})]],
            "inputs": [document["root"]],
        }  # fmt: skip
        parts.append({"op": "project", "columns": [[2002, lit(at)], [2001, {"col": 2001}]], "inputs": [grouped]})
    union = {"op": "union", "columns": [3000, 3001], "from": [[2002, 2001]] * GROUPED, "inputs": parts}
    found = rows(call, document, union, [3000, 3001])
    for at, ((kind, values), _) in enumerate(chosen):
        tokens = [v.same if comparison is identity else v.equal for v in values]
        groups = sorted(sorted(map(int, ids)) for n, ids in found if int(n) == at)
        assert groups == classes(tokens), f"{kind.sql}: {[v.sql for v in values]}"


def test_intervals_of_days_and_months_are_compared_too(call: Call) -> None:
    dice = random.Random(SEED)
    kinds = [INTERVALS, *containers(dice, INTERVALS)]
    columns = [column(dice, kind) for kind in kinds]
    document = analyze(call, query(columns))
    (number, _), *ids = document["output"]
    forms = [[1000 + c, fn("tidemill_identity", {"col": c})] for c, _ in ids]
    plan = {"op": "project", "columns": [[number, {"col": number}], *forms], "inputs": [document["root"]]}
    found = sorted(rows(call, document, plan, [number, *(1000 + c for c, _ in ids)]), key=lambda row: int(row[0]))
    for kind, values, given in zip(kinds, columns, list(zip(*found, strict=True))[1:], strict=True):
        assert classes(given) == classes([v.same for v in values]), kind.sql
    call("release", query=document["query"])
