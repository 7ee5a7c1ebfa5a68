"""Values that Spark cannot compare, or compares by a collation: every change shows, and no row goes for another.

What is expected is written down: Spark's own comparison of such values would hide what is tested.
"""

from __future__ import annotations

import pytest

from tests.conftest import packs
from tests.system.conftest import World


def table(world: World, columns: str, rows: str) -> None:
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    world.change(f"CREATE TABLE t ({columns}) USING delta {feed}", f"INSERT INTO t {rows}")


def view(world: World, name: str, query: str) -> None:
    world.spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")


def refreshed(world: World, name: str, shown: str = "*") -> list[tuple[object, ...]]:
    """What the view shows after an incremental run."""
    row = world.spark.sql(f"REFRESH INCREMENTAL VIEW {name}").first()
    assert row is not None
    assert row.kind == "INCREMENTAL", row
    return world.rows(f"SELECT {shown} FROM {name}")


NESTED = {
    "STRUCT<tags: MAP<STRING, STRING>, at: TIMESTAMP>": (
        "named_struct('tags', map('a', 'b', 'c', 'd'), 'at', TIMESTAMP'2024-01-01 00:00:00.123{}')",
        "date_format({}.at, 'SSSSSS')",
    ),
    "ARRAY<STRUCT<v: VARIANT, n: TIMESTAMP_NTZ>>": (
        "array(named_struct('v', parse_json('[1]'), 'n', TIMESTAMP_NTZ'2024-01-01 00:00:00.123{}'))",
        "date_format({}[0].n, 'SSSSSS')",
    ),
    "MAP<STRING, MAP<STRING, TIMESTAMP>>": (
        "map('x', map('y', TIMESTAMP'2024-01-01 00:00:00.123{}'))",
        "date_format({}['x']['y'], 'SSSSSS')",
    ),
    "STRUCT<m: MAP<BINARY, INT>>": ("named_struct('m', map(X'61', 123{}))", "string({}.m[X'61'])"),
}
"""Types with a value of each and what shows three digits of it."""


def test_a_change_within_a_nested_value_shows_and_the_right_row_goes(fresh: World) -> None:
    columns = ", ".join(f"v{i} {kind}" for i, kind in enumerate(NESTED))
    shown = ", ".join(text.format(f"v{i}") for i, (_, text) in enumerate(NESTED.values()))

    def row(number: int, digits: str) -> str:
        return f"({number}, {', '.join(value.format(digits) for value, _ in NESTED.values())})"

    table(fresh, f"id INT, {columns}", f"VALUES {row(0, '456')}, {row(1, '999')}")
    view(fresh, "r", "SELECT id, v0, v1, v2, v3 FROM t")
    view(fresh, "b", "SELECT v0, v1, v2, v3 FROM t")
    values = ", ".join(f"v{i} = {value.format('457')}" for i, (value, _) in enumerate(NESTED.values()))
    fresh.change(f"UPDATE t SET {values} WHERE id = 0")
    assert refreshed(fresh, "r", shown) == refreshed(fresh, "b", shown) == [("123457",) * 4, ("123999",) * 4]
    fresh.change("DELETE FROM t WHERE id = 1")
    assert refreshed(fresh, "r", shown) == refreshed(fresh, "b", shown) == [("123457",) * 4]


GROUPS = {
    "MAP<STRING, INT>": ("map('a', {0}, 'b', 1)", "map('b', 1, 'a', {0})", "{}['a']"),
    "STRUCT<m: MAP<BINARY, TIMESTAMP>, n: INT>": (
        "named_struct('m', map(X'61', TIMESTAMP'2024-01-01 00:00:00.12345{0}'), 'n', 0)",
        "",
        "int(date_format({}.m[X'61'], 'SSSSSS')) % 10",
    ),
    "ARRAY<MAP<INT, STRING>>": ("array(map({0}, 'x'))", "", "map_keys({}[0])[0]"),
}
"""Types with a value of each, the same value written in another order, and what shows the number in it."""


def test_groups_by_a_map_are_maintained_for_every_aggregate(fresh: World) -> None:
    columns = ", ".join(f"g{i} {kind}" for i, kind in enumerate(GROUPS))

    def row(number: int, group: int, *, again: bool = False) -> str:
        values = ((other if again and other else one).format(group) for one, other, _ in GROUPS.values())
        return f"({number}, {', '.join(values)})"

    nulls = ", NULL" * len(GROUPS)
    rows = [row(1, 1), row(2, 1, again=True), row(3, 2), row(4, 2), f"(5{nulls})"]
    table(fresh, f"id INT, {columns}", f"VALUES {', '.join(rows)}")
    for i, _ in enumerate(GROUPS):
        view(fresh, f"x{i}", f"SELECT g{i}, max(id) AS a, count(DISTINCT id) AS b FROM t GROUP BY g{i}")
    view(fresh, "z", "SELECT g0, g1, sum(id) AS a, count(*) AS b FROM t GROUP BY g0, g1")
    new = ", ".join([f"(6{nulls})", row(0, 1, again=True)])
    fresh.change("DELETE FROM t WHERE id IN (2, 3, 5)", f"INSERT INTO t VALUES {new}")
    for i, (_, _, shown) in enumerate(GROUPS.values()):
        columns = f"{shown.format(f'g{i}')}, a, b"
        assert refreshed(fresh, f"x{i}", columns) == [(1, 1, 2), (2, 4, 1), (None, 6, 1)]
    assert refreshed(fresh, "z", "g0['a'], g1.n, a, b") == [(1, 0, 1, 2), (2, 0, 4, 1), (None, None, 6, 1)]


def test_differences_that_a_collation_does_not_see_show(fresh: World) -> None:
    table(fresh, "x INT, r STRING", "VALUES (1, 'a'), (2, 'HELLO'), (3, 'b')")
    collated = "(SELECT x, r COLLATE UTF8_LCASE_RTRIM AS r FROM t)"
    view(fresh, "extreme", f"SELECT x, length(m) n, hex(m) h FROM (SELECT x, max(r) m FROM {collated} GROUP BY x)")
    view(fresh, "before", f"SELECT x, hex(lag(r) OVER (ORDER BY x)) AS h FROM {collated}")
    view(fresh, "given", f"SELECT x, r FROM {collated}")
    view(fresh, "above", "SELECT r, array(r) AS a FROM given WHERE r <> 'B'")
    fresh.change("UPDATE t SET r = 'A  ' WHERE x = 1", "UPDATE t SET r = 'hello' WHERE x = 2")
    assert refreshed(fresh, "extreme") == [(1, 3, "412020"), (2, 5, "68656C6C6F"), (3, 1, "62")]
    assert refreshed(fresh, "before") == [(1, None), (2, "412020"), (3, "68656C6C6F")]
    assert refreshed(fresh, "given", "x, hex(r)") == [(1, "412020"), (2, "68656C6C6F"), (3, "62")]
    assert refreshed(fresh, "above", "hex(r), hex(a[0])") == [("412020",) * 2, ("68656C6C6F",) * 2]


@pytest.mark.parametrize(
    "prefer", ["lineage", *(pytest.param(p, marks=pytest.mark.slow) for p in ("affected", "recompute"))]
)
def test_a_group_takes_a_spelling_that_is_left(fresh: World, prefer: str) -> None:
    table(fresh, "id INT, r STRING", "VALUES (1, 'a'), (2, 'A'), (3, 'A'), (4, 'b'), (5, NULL)")
    collated = "(SELECT id, r COLLATE UTF8_LCASE AS r, named_struct('t', r COLLATE UNICODE_CI) AS s FROM t)"
    with packs(fresh.spark, prefer=prefer):
        view(fresh, "n", f"SELECT r, count(*) AS n FROM {collated} GROUP BY r")
        view(fresh, "m", f"SELECT concat(r, '!') u, s, max(r) x, min(r) y FROM {collated} GROUP BY s, r HAVING r > 'A'")
        view(fresh, "p", f"SELECT id, max(r) OVER (PARTITION BY r) x, count(*) OVER (PARTITION BY r) n FROM {collated}")
        view(fresh, "g", f"SELECT g, count(*) AS n FROM (SELECT map(1, r) AS g FROM {collated}) GROUP BY g")
        view(fresh, "e", f"SELECT r FROM {collated} EXCEPT ALL SELECT r FROM {collated} WHERE id < 3")
        fresh.change("DELETE FROM t WHERE id = 1", "UPDATE t SET r = 'B' WHERE id = 4")
        assert refreshed(fresh, "n", "hex(r), n") == [("41", 2), ("42", 1), (None, 1)]
        assert refreshed(fresh, "g", "hex(g[1]), n") == [("41", 2), ("42", 1), (None, 1)]
        assert refreshed(fresh, "e", "hex(r)") == [("41",), ("42",), (None,)]
        assert refreshed(fresh, "m", "u, hex(s.t), hex(x), hex(y)") == [("B!", "42", "42", "42")]
        assert refreshed(fresh, "p", "id, hex(x), n") == [(2, "41", 2), (3, "41", 2), (4, "42", 1), (5, None, 1)]


def test_a_new_spelling_is_shown_where_no_row_leaves(fresh: World) -> None:
    """The first one by its bytes: what stands above a DISTINCT then has a row less, though the table has none less."""
    table(fresh, "id INT, r STRING, x DOUBLE", "VALUES (1, 'b', 0), (2, 'C', 5), (3, 'C', 5)")
    collated = "(SELECT id, r COLLATE UTF8_LCASE AS r, x FROM t)"
    with packs(fresh.spark, prefer="affected"):
        view(fresh, "s", f"SELECT min(hex(r)) AS low, max(hex(r)) AS high FROM (SELECT DISTINCT r FROM {collated})")
        view(fresh, "e", f"SELECT max(r) AS high, min(r) AS low, count(*) AS n FROM {collated}")
        view(fresh, "g", f"SELECT r, max(id) AS id, bit_or(id) AS bits FROM {collated} GROUP BY r")
        view(fresh, "z", "SELECT x, min(x) AS low, max(id) AS id FROM t GROUP BY x")
        for rows, spelled in (
            ("(4, 'B', -0.0D), (5, 'c', 5)", ("42", "43")),
            ("(6, 'a', DOUBLE('NaN')), (0, 'A', DOUBLE('NaN'))", ("41", "43")),
            ("(7, NULL, NULL)", ("41", "43")),
        ):
            fresh.change(f"INSERT INTO t VALUES {rows}")
            assert refreshed(fresh, "s") == [spelled]
            for name in "egz":
                refreshed(fresh, name)
                assert fresh.spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches, (name, rows)
