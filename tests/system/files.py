"""Files of a source changed behind Spark's back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.conftest import location_of


def parts(spark: SparkSession, table: str) -> list[Path]:
    """The data files of a table, by name."""
    return sorted(p for p in location_of(spark, table).rglob("part-*") if p.suffix != ".crc")


def put(spark: SparkSession, rows: Sequence[Any], schema: str, target: Path, format_: str = "parquet") -> Path:
    """One file with these rows under the name `target`, in the place of what was there."""
    folder = target.parent / "_made"
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").format(format_).save(str(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(next(folder.glob("part-*")), target)
    target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
    return target


def remove(file: Path) -> None:
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
