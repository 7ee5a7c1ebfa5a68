"""Contents that can be compared across processes and readers, which have values of their own for nested types."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """Of a bag of rows: structs are tuples in it, maps dicts."""
    texts = sorted(repr([_ordered(value) for value in row]) for row in rows)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def read_by_spark(frame: DataFrame, columns: Sequence[str]) -> str:
    """The digest of these columns."""
    return digest(frame.select(*columns).collect())


def read_by_duckdb(files: Sequence[str], columns: Sequence[str]) -> str:
    """The digest of these columns of Parquet files."""
    import duckdb

    # The list as text: as a parameter, this version of DuckDB looks at it with a pandas of its time.
    listed = ", ".join("'{}'".format(file.replace("'", "''")) for file in files)
    query = f"SELECT {', '.join(columns)} FROM read_parquet([{listed}], hive_partitioning = false)"
    rows = duckdb.connect().execute(query).fetchall()
    return digest([_of_duckdb(value) for value in row] for row in rows)


def _ordered(value: Any) -> Any:
    match value:
        case dict():
            return sorted(((_ordered(k), _ordered(v)) for k, v in value.items()), key=repr)
        case tuple():
            return tuple(map(_ordered, value))
        case list():
            return [_ordered(v) for v in value]
        case _:
            return value


def _of_duckdb(value: Any) -> Any:
    match value:
        case {"key": list(keys), "value": list(values)}:  # a map
            return dict(zip(keys, map(_of_duckdb, values), strict=True))
        case dict():  # a struct
            return tuple(map(_of_duckdb, value.values()))
        case list():
            return [_of_duckdb(v) for v in value]
        case _:
            return value
