"""An incremental view as a source of another one: positions are runs, changes are their signed deltas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.store.conftest import Store, bag, signed
from tidemill.runtime.storage.files import Files
from tidemill.runtime.storage.log import Log
from tidemill.runtime.storage.publish import publish
from tidemill.sources import describe_position, pin


@dataclass(frozen=True)
class Run:
    """What the bridge reads of an entry."""

    run: int
    output: bool
    files: Sequence[Mapping[str, Any]]
    delta: Sequence[Mapping[str, Any]] | None

    def to_json(self) -> Mapping[str, Any]:
        counts = None if self.delta is None else {"inserts": 2, "deletes": 1}
        return {
            "run": self.run,
            "output": self.output,
            "output_run": self.run if self.output else self.run - 1,
            "files": [*self.files],
            "rows": 3,
            "delta": None if self.delta is None else [*self.delta],
            "metrics": {"rows_out": counts},
        }


def _run(data: Mapping[str, Any]) -> Run:
    return Run(data["run"], data["output"], data["files"], data["delta"])


@pytest.fixture
def upstream(spark: SparkSession, files: Files, location: str, table: str) -> Log[Run]:
    """A view of one column `id`: run 0 fills it with 1, 1, 2; run 1 takes a 1 and adds 3, 3; run 2 gives no output."""

    def write(folder: str, query: str) -> list[dict[str, Any]]:
        spark.sql(query).coalesce(1).write.parquet(f"{location}/{folder}")
        found = files.list(f"{location}/{folder}")
        return [{"path": s.path, "bytes": s.bytes, "modified": s.modified} for s in found if s.name.startswith("part-")]

    log: Log[Run] = Log(files, location, "default.v", _run)
    files.write(f"{location}/_tidemill/view.json", '{"id": "view-1", "columns": [{"name": "id", "type": "integer"}]}')
    first = write("data-0", "SELECT * FROM VALUES (1), (1), (2) AS t(id)")
    log.commit(Run(0, True, first, None))
    second = write("data-1", "SELECT * FROM VALUES (1), (2), (3), (3) AS t(id)")
    delta = write("_tidemill/delta/1", "SELECT id, n AS _n FROM VALUES (1, -1L), (3, 2L) AS t(id, n)")
    log.commit(Run(1, True, second, delta))
    log.commit(Run(2, False, second, []))
    publish(files, location, 1, second)
    spark.sql(f"CREATE TABLE {table} (id INT) USING parquet LOCATION '{location}'")
    return log


def test_positions_contents_and_changes(store: Store, upstream: Log[Run], table: str) -> None:
    source = store.describe(table)
    assert (source["kind"], source["id"]) == ("view", "view-1")
    [pinned] = pin(store, [source], [{"run": 0, "id": "view-1"}])
    assert pinned.position == {"run": 1, "id": "view-1", "rows": 3}
    assert pinned.change.rows == 3
    assert describe_position(pinned.position) == "1"
    change = pinned.change
    assert change.direct
    assert (change.changed, change.old_readable, change.inserts, change.deletes) == (True, True, 2, 1)
    assert bag(store.snapshot(table, ["id"], {"run": 0})) == Counter({(1,): 2, (2,): 1})
    assert bag(store.snapshot(table, ["id"], pinned.position)) == Counter({(1,): 1, (2,): 1, (3,): 2})
    changes = store.changes(table, ["id"], {"run": 0}, pinned.position)
    assert signed(changes) == Counter({(1,): -1, (3,): 2})
    assert signed(store.changes(table, ["id"], pinned.position, pinned.position)) == Counter()
    [same] = pin(store, [source], [pinned.position])
    assert not same.change.changed


def test_a_full_run_cannot_be_followed(store: Store, upstream: Log[Run], table: str) -> None:
    upstream.commit(Run(3, True, upstream_files(upstream), None))
    [pinned] = pin(store, [store.describe(table)], [{"run": 1, "id": "view-1"}])
    assert pinned.position["run"] == 3
    assert (pinned.change.reason or "").startswith("SOURCE_REWRITTEN: run 3")


def test_files_that_are_gone_and_other_views(store: Store, files: Files, upstream: Log[Run], table: str) -> None:
    source = store.describe(table)
    [other] = pin(store, [source], [{"run": 0, "id": "another"}])
    assert (other.change.reason or "").startswith("SOURCE_REPLACED")
    location = source["path"]
    files.delete([f"{location}/data-0"])
    [pinned] = pin(store, [source], [{"run": 0, "id": "view-1"}])
    assert (pinned.change.reason, pinned.change.old_readable) == (None, False)
    files.delete([f"{location}/_tidemill/delta/1"])
    [gone] = pin(store, [source], [{"run": 0, "id": "view-1"}])
    assert (gone.change.reason or "").startswith("HISTORY_GONE")


def test_rows_may_come_and_go_between_two_outputs(store: Store, upstream: Log[Run], table: str) -> None:
    newest = upstream.newest()
    assert newest is not None
    assert newest.delta is not None
    upstream.commit(Run(3, True, upstream_files(upstream), newest.delta))
    for start, direct in ((0, False), (1, True)):
        [pinned] = pin(store, [store.describe(table)], [{"run": start, "id": "view-1"}])
        assert (pinned.change.reason, pinned.change.direct) == (None, direct)


def upstream_files(log: Log[Run]) -> Sequence[Mapping[str, Any]]:
    """The live files of the last run."""
    newest = log.newest()
    assert newest is not None
    return newest.files
