"""Sending a query's own tree back, and comparing bags of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Call = Callable[..., Any]
Document = dict[str, Any]
Bag = Counter[tuple[Any, ...]]


def bag(frame: DataFrame) -> Bag:
    """The rows of a frame with their multiplicities."""
    return Counter(tuple(map(_cell, row)) for row in frame.collect())


def _cell(value: Any) -> Any:
    """Doubles by nine significant digits: their sums depend on the order of rows."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value + 0.0:.9g}"
    if isinstance(value, list | tuple):
        return tuple(map(_cell, value))
    if isinstance(value, dict):
        return tuple(sorted((str(k), _cell(v)) for k, v in value.items()))
    return value


def analyze(call: Call, sql: str, namespace: str = "default", confs: dict[str, str] | None = None) -> Document:
    """The query document of a text."""
    document: Document = call("analyze", confs, sql=sql, catalog="spark_catalog", namespace=[namespace])
    return document


def unique(output: list[list[Any]]) -> list[list[Any]]:
    """Names as Parquet wants them: no two equal."""
    return [[column, f"c{i}"] for i, (column, _) in enumerate(output)]


def write(
    call: Call,
    document: Document,
    plan: Document,
    path: Path,
    columns: list[list[Any]],
    files: int | None = None,
    confs: dict[str, str] | None = None,
) -> Document:
    """The answer of a run that writes a plan as Parquet."""
    sink = {"kind": "parquet", "path": str(path), "columns": columns, "files": files}
    answer: Document = call(
        "run",
        confs,
        query=document["query"],
        plan=plan,
        view="v",
        run=0,
        output="result",
        description="test",
        sink=sink,
    )
    return answer


def rows(call: Call, document: Document, plan: Document, columns: list[int], step: str = "rows") -> list[list[Any]]:
    """The rows of a plan, sorted by their JSON text."""
    sink = {"kind": "rows", "columns": [[c, f"c{i}"] for i, c in enumerate(columns)]}
    answer = call("run", query=document["query"], plan=plan, view="v", run=0, output=step, sink=sink)
    return sorted(answer["rows"], key=str)


def round_trip(
    spark: SparkSession,
    call: Call,
    sql: str,
    path: Path,
    namespace: str = "default",
    confs: dict[str, str] | None = None,
) -> tuple[Document, Bag]:
    """The document of a query, and the rows that its own tree gives."""
    document = analyze(call, sql, namespace, confs)
    write(call, document, document["root"], path, unique(document["output"]), confs=confs)
    call("release", query=document["query"])
    return document, bag(spark.read.parquet(str(path)))


def operators(node: Document) -> Counter[str]:
    """How often each operator occurs in a tree; opaque ones by their name."""
    found = Counter([f"opaque {node['name']}" if node["op"] == "opaque" else node["op"]])
    for child in node.get("inputs", ()):
        found += operators(child)
    return found
