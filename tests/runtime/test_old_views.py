"""Views that earlier versions of Tidemill have made go on where those left them, with their states.

`old_views/*.zip` hold tables and views as they lay on disk, each made by the version of its time, under the fixed
path that positions and definitions name. TIDEMILL_KEEP_VIEWS=NAME adds those of this version, under that name: before
the format of what a view keeps changes, or how its states are named.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle

ARCHIVES = set((Path(__file__).parent / "old_views").glob("*.zip"))
if (NAME := os.environ.get("TIDEMILL_KEEP_VIEWS")) is not None:
    ARCHIVES.add(Path(__file__).parent / "old_views" / f"{NAME}.zip")
ROOT = Path("/tmp/tidemill-old-views")
SALES, NAMES = f"parquet.`{ROOT}/sales`", f"parquet.`{ROOT}/names`"
VIEWS = {
    "groups": ("", f"SELECT k, sum(v) AS s, count(*) AS n, max(v) AS m FROM {SALES} GROUP BY k"),
    "outer_rows": ("USING delta", f"SELECT a.k, v, d.name FROM {SALES} a LEFT JOIN {NAMES} d ON a.k = d.k"),
    "first_rows": ("", f"SELECT k, v FROM {SALES} ORDER BY v DESC, k LIMIT 3"),
}


@pytest.fixture
def place() -> Iterator[Path]:
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    yield ROOT
    shutil.rmtree(ROOT)


def add(table: str, number: int, columns: dict[str, list[object]]) -> None:
    """One more file of a table."""
    file = ROOT / table / f"{number}.parquet"
    file.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table(columns), file)
    stamp(file)


def stamp(file: Path) -> None:
    """A file of a table has the same time of modification each time; an archive does not give it back."""
    os.utime(file, (1_700_000_000 + int(file.stem),) * 2)


def create(view: str) -> str:
    using, query = VIEWS[view]
    where = f"{using} LOCATION '{ROOT}/{view}' SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
    return f"CREATE INCREMENTAL VIEW {view} {where} AS {query}"


def keep(spark: SparkSession, file: Path) -> None:
    """Makes an archive of the views of this version, each with two runs behind it."""
    add("sales", 0, {"k": [n % 50 for n in range(20_000)], "v": list(range(20_000))})
    add("names", 0, {"k": list(range(40)), "name": [f"name {n}" for n in range(40)]})
    for view in VIEWS:
        spark.sql(create(view))
    for number in (1, 2):
        add("sales", number, {"k": [number, 45, None], "v": [20_000 + number, None, number]})
        add("names", number, {"k": [40 + number], "name": [f"name {40 + number}"]})
        for view in VIEWS:
            assert spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0].kind == "INCREMENTAL"
    for view in VIEWS:
        spark.sql(f"DROP INCREMENTAL VIEW {view}")
    shutil.make_archive(str(file.with_suffix("")), "zip", ROOT)


@pytest.mark.parametrize("archive", sorted(ARCHIVES), ids=lambda path: path.stem)
def test_views_of_an_earlier_version_go_on(
    spark: SparkSession, db: str, place: Path, archive: Path, oracle: Oracle, jobs: Callable[..., int]
) -> None:
    if not archive.exists():
        keep(spark, archive)
        shutil.rmtree(place)
        place.mkdir()
    shutil.unpack_archive(archive, place)
    for table in ("sales", "names"):
        for file in (place / table).glob("*.parquet"):
            stamp(file)
    for view, (_, query) in VIEWS.items():
        footers = jobs(lambda query=query: spark.sql(query))  # Spark's own look at the columns of files
        assert jobs(lambda view=view: spark.sql(create(view))) == footers
        assert [r.run for r in spark.sql(f"SHOW REFRESHES IN {view}").collect()] == [2, 1, 0]
        oracle(view, query)
    add("sales", 3, {"k": [7, 41, 60], "v": [30_000, 5, 6]})
    add("names", 3, {"k": [45, 60], "name": ["name 45", "name 60"]})
    for view, (_, query) in VIEWS.items():
        row = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0]
        assert (row.run, row.kind, row.reason) == (3, "INCREMENTAL", None), view
        oracle(view, query)
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").first() == Row(matches=True, missing=0, unexpected=0)
        spark.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS")
        oracle(view, query)
        spark.sql(f"DROP INCREMENTAL VIEW {view}")
