"""TPC-H as Delta tables: all queries under STRICT.

Query texts: tests/system/tpch, the standard's with parameters by which each result is there at SF 0.01 and changes, and
with ORDER BY made total where LIMIT cuts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from benchmarks import changes
from benchmarks.data import TPCH_TABLES
from tests.system import strict
from tests.system.strict import Kept, held_through

QUERIES = Path(__file__).resolve().parent / "tpch"
NUMBERS = tuple(range(1, 23))
QUICK = (3, 5, 14)
"""Maintained in the normal suite too: a LIMIT, six tables, a global aggregate."""
CONFS = {**strict.CONFS, "spark.tidemill.search.processes": "2"}
"""The planner as it is: nothing is put in place of any part of it here."""
ROUNDS = {
    "inserts": changes.inserts(1, 0.04),
    "rows of all tables": changes.change_r(2, 0.05),
    "deletes and updates": (*changes.deletes(3, 0.03), *changes.updates(4, 0.03)),
    "merges, then rows of all tables": (*changes.merges(5, 0.03), *changes.change_r(6, 0.04)),
}

ALONE = (3, 10)
"""Joins of three and more tables of which filters leave some rows."""


def text(number: int) -> str:
    return (QUERIES / f"q{number:02d}.sql").read_text().strip()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H at SF 0.01 as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or "tpchgen-cli"
    subprocess.run([program, "parquet", "-s", "0.01", "-o", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def tpch(spark: SparkSession, files: Path, db: str) -> SparkSession:
    """The eight tables as Delta tables in a database of the test; the change feed on for every other one."""
    for i, name in enumerate(TPCH_TABLES):
        spark.sql(
            f"CREATE TABLE {name} USING delta TBLPROPERTIES (delta.enableChangeDataFeed = {str(i % 2 == 0).lower()}) "
            f"AS SELECT * FROM parquet.`{files / name}.parquet`"
        )
    return spark


def maintained(spark: SparkSession, numbers: tuple[int, ...], rounds: tuple[str, ...]) -> None:
    """Views of the queries are made, hold through the rounds, and are found right by VERIFY."""
    views = [Kept(f"q{n:02d}", text(n)) for n in numbers]
    held_through(spark, CONFS, views, {name: partial(one_by_one, ROUNDS[name]) for name in rounds})
    for view in views:
        verified = spark.sql(f"VERIFY INCREMENTAL VIEW {view.name}").collect()
        assert verified == [Row(matches=True, missing=0, unexpected=0)], view.name


def one_by_one(statements: tuple[str, ...]) -> list[list[str]]:
    return [[s] for s in statements]


def test_some_queries_hold_under_strict(tpch: SparkSession) -> None:
    maintained(tpch, QUICK, ("inserts", "deletes and updates"))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("numbers", [NUMBERS[:11], NUMBERS[11:]], ids=["1 to 11", "12 to 22"])
def test_all_queries_hold_under_strict(tpch: SparkSession, numbers: tuple[int, ...]) -> None:
    maintained(tpch, numbers, tuple(ROUNDS))


@pytest.mark.slow
def test_joins_hold_when_one_table_changes_alone(tpch: SparkSession) -> None:
    """A kept join of the others stays as it is, or follows its own table."""
    tables = ("lineitem", "orders", "customer", "lineitem")
    rounds = {
        f"{table} alone, {n}": partial(one_by_one, (changes.update(changes.TABLES[table], 20 + n, 0.2),))
        for n, table in enumerate(tables)
    }
    views = [Kept(f"q{n:02d}_{p or 'free'}", text(n), prefer=p) for n in ALONE for p in ("higher_order", "")]
    held_through(tpch, CONFS, views, rounds)
    for view in views:
        verified = tpch.sql(f"VERIFY INCREMENTAL VIEW {view.name}").collect()
        assert verified == [Row(matches=True, missing=0, unexpected=0)], view.name
    rows = tpch.sql("SHOW REFRESHES IN q03_higher_order").collect()
    assert any("higher_order" in (row.methods or ()) for row in rows)
