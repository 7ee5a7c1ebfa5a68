"""Few rows of a step come to the driver, many go into files; later steps find both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, rows

QUERY = "SELECT id, CAST(id AS DOUBLE) AS x, CAST(id AS STRING) AS s FROM range(0, 90, 1, 3)"


def written(
    call: Call, document: Document, path: Path, few: int, memory: bool, files: int | None = None, **more: Any
) -> Document:
    """The answer of a step that writes the query of a document."""
    columns = [[column, name] for column, name in document["output"]]
    sink = {"kind": "parquet", "path": str(path), "columns": columns, "files": files, "few": few, "memory": memory}
    answer: Document = call(
        "run", query=document["query"], plan=document["root"], view="v", run=0, output="x", sink=sink | more
    )
    return answer


def read(call: Call, document: Document, files: list[Document]) -> list[list[Any]]:
    """The second and the first column of files that a step wrote, as a later step of the run sees them."""
    leaf = {"op": "files", "paths": files, "columns": [[901, "s", "string"], [900, "id", "long"]]}
    return rows(call, document, leaf, [900, 901])


@pytest.mark.parametrize("few", [0, 29 * 3, 90, 1000])
@pytest.mark.parametrize("memory", [False, True])
def test_all_rows_are_found(call: Call, tmp_path: Path, few: int, memory: bool) -> None:
    """Three tasks have 30 rows each."""
    document = analyze(call, QUERY)
    path = tmp_path / "step"
    answer = written(call, document, path, few, memory)
    on_disk = sorted(path.glob("*.parquet"))
    comes = few >= 90
    assert len(on_disk) == (0 if comes and memory else 1 if comes else 3)
    assert answer["rows"] == 90
    assert len(answer["files"]) == max(1, len(on_disk))
    assert read(call, document, answer["files"]) == sorted(([i, str(i)] for i in range(90)), key=str)
    call("release", query=document["query"])


def test_tasks_of_few_and_of_many_rows(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """What came to the driver is in one more file; no row is in memory if one task had too many."""
    document = analyze(call, "SELECT id, CAST(id AS STRING) AS s FROM range(0, 90, 1, 3) WHERE id < 35 OR id = 70")
    path = tmp_path / "step"
    answer = written(call, document, path, 3 * 10, True)
    assert len(answer["files"]) == len(list(path.glob("*.parquet"))) == 2
    assert answer["rows"] == 36
    assert spark.read.parquet(str(path)).count() == 36
    assert len(read(call, document, answer["files"])) == 36
    call("release", query=document["query"])


def test_rows_stay_as_long_as_the_query_is_known(call: Call, tmp_path: Path) -> None:
    document = analyze(call, QUERY)
    files = written(call, document, tmp_path / "a", 1000, True)["files"]
    assert len(read(call, document, files)) == 90
    call("release", query=document["query"])
    other = analyze(call, QUERY)
    with pytest.raises(Exception, match="memory"):
        read(call, other, files)
    call("release", query=other["query"])


def test_no_rows(call: Call, tmp_path: Path) -> None:
    """A file that others may read exists even then; its columns are known."""
    document = analyze(call, f"{QUERY} WHERE id < 0")
    for memory in (False, True):
        answer = written(call, document, tmp_path / str(memory), 10, memory)
        assert answer["rows"] == 0
        assert len(list((tmp_path / str(memory)).glob("*.parquet"))) == (not memory)
        assert read(call, document, answer["files"]) == []
    call("release", query=document["query"])


def test_files_in_an_order_or_merged(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    document = analyze(call, QUERY)
    answer = written(call, document, tmp_path / "merged", 0, False, files=2)
    assert len(answer["files"]) == 2
    answer = written(call, document, tmp_path / "most", 0, False, files=1, file_rows=40)
    assert len(answer["files"]) == 3
    ordered = written(call, document, tmp_path / "ordered", 0, False, order="s", page_rows=10)
    for file in ordered["files"]:
        found = [row.s for row in spark.read.parquet(file["path"]).collect()]
        assert found == sorted(found)
    call("release", query=document["query"])


def test_of_a_file_with_marked_rows_the_others_are_found(call: Call, tmp_path: Path) -> None:
    """All of its rows are in memory, also those that have left since."""
    document = analyze(call, QUERY)
    (file,) = written(call, document, tmp_path / "step", few=1000, memory=False)["files"]
    assert len(read(call, document, [file])) == 90
    request = {"path": str(tmp_path / "marks.bin"), "files": [{**file, "gone": [0, 7]}], "description": "mark"}
    (vector,) = call("mark", **request)["vectors"]
    assert len(read(call, document, [{**file, "dv": vector}])) == 88
