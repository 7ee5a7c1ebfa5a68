"""The texts of TPC-DS for scale 0.01 in DuckDB: all replacements fit, each has rows, and its order leaves nothing open.

No Spark here. What needs one is that the texts mean the same there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import duckdb
import pytest

from benchmarks.texts import replaced, tpcds

Tables = duckdb.DuckDBPyConnection
NAMES = [f"q{number:02}" for number in range(1, 100)]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Tables, Tables]]:
    """The tables at scale 0.01, and the same with their rows the other way round."""
    with ExitStack() as stack:
        forward, backward = (stack.enter_context(duckdb.connect()) for _ in range(2))
        for tables in (forward, backward):
            tables.execute("SET threads = 1")
            tables.execute("CALL dsdgen(sf = 0.01)")
        for (name,) in backward.execute("SELECT table_name FROM information_schema.tables").fetchall():
            backward.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {name} ORDER BY rowid DESC")
        yield forward, backward


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return tpcds(small=True)


def rows(tables: Tables, text: str) -> Counter[tuple[object, ...]]:
    """The answer as a bag, doubles with seven digits: their sums depend on the order of the rows."""
    answer = tables.execute(text).fetchall()
    return Counter(tuple(f"{v:.6e}" if isinstance(v, float) else v for v in row) for row in answer)


def test_there_are_99_texts(made: dict[str, str]) -> None:
    assert list(made) == NAMES
    assert not [name for name, text in made.items() if text.endswith(";")]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_there_and_determined(both: tuple[Tables, Tables], made: dict[str, str], name: str) -> None:
    """Some value is neither NULL nor zero, and what LIMIT keeps does not depend on the order of the tables' rows."""
    forward, backward = (rows(tables, made[name]) for tables in both)
    assert any(value is not None and value != 0 for row in forward for value in row)
    assert forward == backward


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"changes": [["a = 2", "a = 3"]]}, "q00: no 'a = 2' in the text"),
        ({"order": "a, b"}, "q00: no ORDER BY and LIMIT at the end of the text"),
        ({"limit": 5}, "q00: unknown limit"),
    ],
)
def test_what_does_not_fit_is_an_error(parameters: dict[str, object], message: str) -> None:
    text = "SELECT a, rank() OVER (ORDER BY b) FROM (SELECT a, b FROM t WHERE a = 1 LIMIT 9)"
    with pytest.raises(ValueError, match=re.escape(message)):
        replaced("q00", text, parameters)
