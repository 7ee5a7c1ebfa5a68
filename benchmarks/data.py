"""TPC-H: Parquet files made once by tpchgen-cli and kept under build/, Delta tables made from them."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TPCH_TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of data under that name; if it is not there, `make` fills it, and it appears when it is complete."""
    folder = BUILD / "data" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # who comes second waits, and finds it
        if not folder.exists():
            temporary = folder.with_name(folder.name + ".tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
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
