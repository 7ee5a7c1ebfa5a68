"""TPC-H: Parquet files made once by tpchgen-cli and kept under build/, Delta tables made from them, query texts."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
QUERIES = Path(__file__).resolve().parent / "queries"
TPCH_TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of data under that name; if it is not there, `make` fills it, and it appears when it is complete."""
    folder = BUILD / "data" / name
    if not folder.exists():
        temporary = folder.with_name(folder.name + ".tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        make(temporary)
        temporary.rename(folder)
    return folder


def tpch_files(scale: float) -> Path:
    """The folder with one Parquet file per table; made in 1 s per 0.1 of scale if it is not there."""

    def make(folder: Path) -> None:
        # Beside the interpreter: a virtual environment's scripts are there whether or not it is activated.
        program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or "tpchgen-cli"
        subprocess.run([program, "parquet", "-s", f"{scale:g}", "-o", str(folder)], check=True)

    return kept(f"tpch-{scale:g}", make)


def load_delta(spark: SparkSession, files: Path, tables: tuple[str, ...] = TPCH_TABLES) -> None:
    """Create one Delta table per file in the current database, with the change data feed on."""
    for name in tables:
        spark.sql(
            f"CREATE TABLE {name} USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) "
            f"AS SELECT * FROM parquet.`{files / name}.parquet`"
        )


def tpch_query(number: int) -> str:
    """The text of a TPC-H query with the standard's validation parameters."""
    return (QUERIES / "tpch" / f"q{number:02d}.sql").read_text().strip()


def tpch_numbers() -> tuple[int, ...]:
    """The TPC-H queries that have a text here."""
    return tuple(sorted(int(path.stem[1:]) for path in (QUERIES / "tpch").glob("q*.sql")))


def standard(connection: duckdb.DuckDBPyConnection, benchmark: str) -> dict[str, str]:
    """The query texts of `tpch` or `tpcds` by name, q01 and so on, with the parameters that DuckDB gives them."""
    connection.execute(f"LOAD {benchmark}")
    rows = connection.execute(f"FROM {benchmark}_queries()").fetchall()
    return {f"q{number:02}": text.strip().rstrip(";").rstrip() for number, text in rows}
