"""Random contents and changes of the tables of `queries.py`: duplicates, NULLs, a skewed key, doubles that hurt."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.system.expressions import LITERALS
from tests.system.queries import COLUMNS

SQL_TYPES = {
    "bigint": "BIGINT",
    "string": "STRING",
    "decimal": "DECIMAL(10, 2)",
    "double": "DOUBLE",
    "date": "DATE",
    "collated": "STRING",
    "mapped": "STRUCT<m: MAP<STRING, TIMESTAMP_NTZ>, at: TIMESTAMP_NTZ>",
    "variant": "STRUCT<v: VARIANT, at: TIMESTAMP_NTZ>",
}
VALUES = {
    "k": ("1", "1", "1", "2", "3", "NULL"),
    "x": ("0", "1", "5", "-5", "NULL"),
    "s": ("'a'", "'b'", "'ab'", "''", "NULL"),
    "m": ("1.50", "-2.25", "0.00", "99.99", "NULL"),
    "d": ("1", "-1", "0.1", "-0.0", "1e16", "-1e16", "double('NaN')", "double('inf')", "double('-inf')", "NULL"),
    "t": ("DATE'2024-01-01'", "DATE'2024-02-29'", "NULL"),
    "c": ("'a'", "'A'", "'b'", "'B'", "NULL"),
    "n": (*LITERALS["mapped"], "NULL"),
    "w": (*LITERALS["variant"], "NULL"),
}
CHANGEABLE = ("f", "g")
"""Delta tables; `p`, a Parquet table, only grows."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Contents at first, and rounds of statements."""

    rows: dict[str, tuple[Row, ...]]
    rounds: tuple[tuple[str, ...], ...]


@st.composite
def rows(draw: DrawFn, least: int = 0, most: int = 8) -> tuple[Row, ...]:
    """Rows as SQL literals; often the same row several times."""
    row = st.tuples(*(st.sampled_from(VALUES[c]) for c in COLUMNS))
    found = [tuple(r) for r in draw(st.lists(row, min_size=least, max_size=most))]
    repeated = draw(st.integers(0, 2))
    return (*found, *found[:1] * repeated)


@st.composite
def scenarios(draw: DrawFn, rounds: int) -> Scenario:
    """Contents of the three tables and up to `rounds` rounds of changes of several of them."""
    contents = {table: draw(rows(2, 10)) for table in ("f", "g", "p")}
    found = []
    for _ in range(draw(st.integers(2, rounds))):
        found.append(tuple(_statement(draw) for _ in range(draw(st.integers(1, 3)))))
    return Scenario(contents, tuple(found))


def _statement(draw: DrawFn) -> str:
    kind = draw(st.sampled_from(["insert", "insert", "grow", "delete", "update", "merge"]))
    table = draw(st.sampled_from(CHANGEABLE))
    match kind:
        case "insert" | "grow":
            return insert("p" if kind == "grow" else table, draw(rows(1, 4)))
        case "delete":
            return f"DELETE FROM {table} WHERE {_chosen(draw)}"
        case "update":
            column = draw(st.sampled_from([c for c in COLUMNS if c != "p"]))
            return f"UPDATE {table} SET {column} = {_value(draw, column)} WHERE {_chosen(draw)}"
    column = draw(st.sampled_from([c for c in COLUMNS if c != "k"]))
    keys = draw(st.lists(st.sampled_from(["1", "2", "3", "4", "NULL"]), min_size=1, max_size=3, unique=True))
    source = values([(key, *(_value(draw, c) for c in COLUMNS if c != "k")) for key in keys])
    matched = draw(st.sampled_from([f"UPDATE SET {column} = u.{column}", "DELETE"]))
    return (
        f"MERGE INTO {table} USING ({source}) u ON {table}.k {draw(st.sampled_from(['=', '<=>']))} u.k "
        f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
    )


def _value(draw: DrawFn, column: str) -> str:
    return draw(st.sampled_from(VALUES[column]))


def _chosen(draw: DrawFn) -> str:
    """Which rows: by key, by number, those with NULL, all."""
    return draw(st.sampled_from(["k = 1", "k = 2", "k IS NULL", "x > 0", "x = 5", "s = 'a'", "d > 1", "m < 0", "true"]))


def insert(table: str, new: tuple[Row, ...]) -> str:
    """INSERT of rows of literals."""
    return f"INSERT INTO {table} {values(list(new))}"


def values(new: list[Row]) -> str:
    """A relation of typed rows."""
    if not new:
        return f"SELECT {_typed(tuple('NULL' for _ in COLUMNS))} WHERE false"
    return " UNION ALL ".join(f"SELECT {_typed(row)}" for row in new)


def _typed(row: Row) -> str:
    pairs = zip(COLUMNS.items(), row, strict=True)
    return ", ".join(f"CAST({value} AS {SQL_TYPES[type_]}) AS {column}" for (column, type_), value in pairs)
