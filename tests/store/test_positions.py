"""Adapters of sources by themselves: what two positions tell, and what can be foreseen.  No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.sources.adapters import describe_position, pin
from tidemill.sources.delta_source import DeltaSource
from tidemill.sources.file_source import FileSource
from tidemill.sources.static_source import StaticSource
from tidemill.sql.schedule import longest_gap
from tidemill.sql.statements import AtTime, Every, OnDemand, Point

TABLE = {"name": "db.t", "rows": 100, "bytes": 1000, "format": "parquet", "location": {"table": ["db", "t"]}}


def listing(*pages: dict[str, tuple[int, int]], partitions: Any = (), id_: str = "t") -> dict[str, Any]:
    """A position of these pages, each of path: (bytes, modified)."""
    texts = []
    for page in pages:
        folders: dict[str, list[str]] = {}
        for path, (size, modified) in page.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(f"{name}/{size}/{modified}")
        texts.append("\0".join(x for folder, files in folders.items() for x in (folder, "/".join(files))))
    stamps = [s for page in pages for s in page.values()]
    return {
        "files": len(stamps),
        "bytes": sum(b for b, _ in stamps),
        "modified": max((m for _, m in stamps), default=0),
        "pages": texts,
        "partitions": list(partitions),
        "id": id_,
    }


A, B = {"f:/t/a": (600, 1), "f:/t/b c": (400, 2)}, {"f:/t/x/c": (500, 3)}


def test_estimates_follow_the_bytes() -> None:
    change = FileSource().change(TABLE, listing(A), listing(A, B), None)
    assert (change.rows, change.bytes, change.inserts, change.deletes) == (150, 1500, 50, 0)
    assert describe_position(listing(A, B)) == "3 files, 1500 bytes, modified 3"


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (listing(A), None),
        (listing({**A, **B}), None),  # the same files, laid out on other pages
        (listing(B), "SOURCE_REWRITTEN: f:/t/a is gone"),
        (listing({**A, "f:/t/a": (600, 9)}), "SOURCE_REWRITTEN: f:/t/a was written over"),
        (listing({**A, "f:/t/b c": (401, 2)}), "SOURCE_REWRITTEN: f:/t/b c was written over"),
        (listing(), "SOURCE_REWRITTEN: f:/t/a is gone"),
        (listing(A, id_="u"), "SOURCE_REPLACED: another table under this name"),
        (listing(A, partitions=[["f:/t", {"p": "1"}]]), "SOURCE_REWRITTEN: a partition has other values"),
        (listing(A, partitions=[["f:/u", {"p": "1"}]]), None),  # a partition that had no files
    ],
)
def test_what_two_listings_tell(new: dict[str, Any], reason: str | None) -> None:
    change = FileSource().change(TABLE, listing(A), new, None)
    assert change.reason == reason
    assert change.changed == (reason is not None or new["files"] > 2)
    assert change.old_readable == (reason is None)


def test_a_second_partition_in_a_folder_is_another_value() -> None:
    one, two = ["f:/t", {"p": "1"}], ["f:/t", {"p": "2"}]
    change = FileSource().change(TABLE, listing(A, partitions=[one]), listing(A, partitions=[one, two]), None)
    assert change.reason == "SOURCE_REWRITTEN: a partition has other values"
    assert not FileSource().change(TABLE, listing(A, partitions=[one]), listing(A, partitions=[one]), None).changed


def test_what_disturbs_a_run() -> None:
    source = FileSource()
    assert source.disturbed(TABLE, listing(A), listing(A, B)) is None
    assert source.disturbed(TABLE, listing(A, B), listing(B)) is None  # gone: it was read, or the run has failed
    over = source.disturbed(TABLE, listing(A, B), listing({**A, "f:/t/a": (600, 5)}, B))
    assert over == "f:/t/a was written over"
    at = {"version": 3, "id": "x"}
    delta = DeltaSource()
    assert delta.disturbed(TABLE, at, {"version": 5, "id": "x"}) is None
    assert delta.disturbed(TABLE, at, {"version": 3, "id": "y"}) == "db.t is another one now"
    assert delta.disturbed(TABLE, at, {"version": 2, "id": "x"}) == "db.t is another one now"


def test_what_is_foreseen() -> None:
    path = {"name": "json.`/p`", "format": "json", "location": {"table": None}}
    assert ["TIDEMILL_SCHEMA_CHANGED" in w for w in FileSource().warnings(path, None)] == [True]
    assert list(FileSource().warnings({**path, "format": "parquet"}, None)) == []
    assert list(FileSource().warnings({**TABLE, "format": "json"}, None)) == []
    delta = {"name": "db.t", "feed": True, "retention_ms": 3_600_000}
    assert list(DeltaSource().warnings(delta, 3600)) == []
    [text] = DeltaSource().warnings(delta, 5400)
    assert "for 1 hours, but 1.5 hours may lie between two runs" in text
    assert ["change data feed" in w for w in DeltaSource().warnings({**delta, "feed": False}, None)] == [True]
    assert list(StaticSource().warnings({"name": "range", "constant": True}, None)) == []
    assert ["NOT_INCREMENTAL" in w for w in StaticSource().warnings({"name": "jdbc", "reason": "no"}, None)] == [True]


def test_the_longest_time_between_two_runs_with_output() -> None:
    def gap(*triggers: Any, output: bool = True) -> float | None:
        return longest_gap([Point(t, output=output) for t in triggers])

    assert gap(OnDemand()) is None
    assert gap(AtTime(3600)) == 86400
    assert gap(AtTime(6 * 3600), AtTime(20 * 3600)) == 14 * 3600
    assert gap(AtTime(6 * 3600), AtTime(20 * 3600), output=False) is None
    assert gap(AtTime(0), AtTime(86400)) == 86400
    assert gap(Every(30, "MINUTES"), AtTime(0)) == 1800


def test_a_position_of_another_kind_says_nothing() -> None:
    """A table of files that became a Delta table: the JVM is not asked what changed since a listing."""
    asked: list[Any] = []

    class Bridge:
        def invoke(self, method: str, request: Any = None) -> Any:
            asked.extend(request["since"])
            return {"positions": [{"version": 4, "id": "x", "bytes": 10, "rows": 1, "columns": {}}], "changes": [None]}

    source = {"name": "db.t", "kind": "delta", "rows": None, "bytes": None}
    [pinned] = pin(Bridge(), [source], [listing(A)])
    assert asked == [None]
    assert pinned.change.reason == "SOURCE_REPLACED: another kind of table"
    assert (pinned.change.changed, pinned.change.old_readable) == (True, False)
    [first] = pin(Bridge(), [source], [None])
    assert first.change.reason is None


@pytest.mark.parametrize(
    ("source", "position", "files"),
    [
        ({"name": "t", "kind": "delta"}, {"version": 4, "id": "x", "bytes": 1, "rows": 1, "file_count": 80}, 80.0),
        ({"name": "t", "kind": "delta"}, {"version": 4, "id": "x", "bytes": 1, "rows": 1}, None),
        ({"name": "f", "kind": "files", "rows": None, "bytes": None}, listing(A), 2.0),
        ({"name": "v", "kind": "view"}, {"run": 4, "id": "x", "rows": 1}, None),
    ],
)
def test_files_are_those_of_the_position(source: Any, position: Any, files: float | None) -> None:
    class Bridge:
        def invoke(self, method: str, request: Any = None) -> Any:
            return {"positions": [position], "changes": [None]}

    [pinned] = pin(Bridge(), [source])
    assert pinned.change.files == files


@pytest.mark.parametrize(("direct", "size", "read"), [(False, 10_000, 500.0), (True, 10_000, None), (False, 300, None)])
def test_rows_of_files_that_came_and_went_are_read_to_tell_a_change(
    direct: bool, size: int, read: float | None
) -> None:
    """Not of a change data feed, which has the rows that changed."""
    told = {"changed": True, "old_readable": True, "reason": None, "inserts": 8, "deletes": 8}
    summary = {**told, "direct": direct, "bytes": size}
    at = {"version": 3, "id": "x", "bytes": 20_000, "rows": 1000}
    change = DeltaSource().change({"name": "db.t"}, {**at, "version": 2}, at, summary)
    assert (change.inserts, change.deletes, change.read) == (8, 8, read)
