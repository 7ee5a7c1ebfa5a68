"""VACUUM: what goes, what stays; states and content that are gone are made anew, and cost only themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of
from tests.log_of_a_year import grow
from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.storage import log
from tidemill.runtime.storage.log import SPAN
from tidemill.runtime.view import views
from tidemill.sql.statements import SetComment

BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
TOP = "SELECT k, s, n FROM (SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k) ORDER BY s DESC, k LIMIT 2"


def folder(spark: SparkSession, view: str) -> Path:
    return Path(unquote(str(location_of(spark, view)).removeprefix("file:")))


def jvm_of(spark: SparkSession) -> Jvm:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return Jvm(gateway._gateway_client, spark._jsparkSession)


def refresh(spark: SparkSession, view: str = "v") -> Row:
    return spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0]


def vacuum(spark: SparkSession, clauses: str = "RETAIN 0 HOURS", view: str = "v") -> list[str]:
    return [r.path for r in spark.sql(f"VACUUM INCREMENTAL VIEW {view} {clauses}").collect()]


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    return "v"


def test_only_what_nothing_needs_goes(spark: SparkSession, view: str, oracle: Oracle) -> None:
    for n in range(4):
        spark.sql(f"INSERT INTO events VALUES ({n}, {n}, 'n')")
        refresh(spark)
    before = files_under(str(folder(spark, view)))
    assert vacuum(spark, "") == []
    would_go = vacuum(spark, "RETAIN 0 HOURS DRY RUN")
    assert would_go
    assert files_under(str(folder(spark, view))) == before
    assert vacuum(spark) == would_go
    assert vacuum(spark) == []
    assert len(files_under(str(folder(spark, view)))) == len(before) - len(would_go)
    oracle("v", BY_KEY)
    assert [r.run for r in spark.sql("SHOW REFRESHES IN v").collect()] == [4, 3, 2, 1, 0]
    spark.sql("INSERT INTO events VALUES (1, 1, 'z')")
    assert refresh(spark).kind == "INCREMENTAL"
    oracle("v", BY_KEY)


def test_symbolic_links_are_not_followed(spark: SparkSession, view: str, tmp_path: Path) -> None:
    """Whatever they lead to stays, under VACUUM and under DROP; so do the links themselves, until DROP."""
    root = folder(spark, view)
    others = tmp_path / "others"
    (others / "empty" / "within").mkdir(parents=True)
    for name in ("file", "1.parquet", "2.json.tmp"):
        (others / name).write_text("of another")
    links = [
        root / "data-0000000007-abcdef01",
        root / "k=1",
        root / "link.parquet",
        *(root / "_tidemill" / name for name in ("delta", "state", "log/0", "definition/x", "leases/1.json.tmp", "x")),
    ]
    for link in links:
        link.parent.mkdir(exist_ok=True)
        if not link.exists():
            link.symlink_to(others / "file" if link.suffix else others)
    there = sorted(tmp_path.rglob("*"))
    refresh(spark)
    vacuum(spark, "RETAIN 0 HOURS DRY RUN")
    assert [path for path in vacuum(spark) if "others" in path or Path(path.removeprefix("file:")) in links] == []
    assert sorted(tmp_path.rglob("*")) == there
    assert [link for link in links if not link.exists()] == []
    inner = root / "_tidemill"
    inner.rename(tmp_path / "inner")
    inner.symlink_to(tmp_path / "inner")
    there = sorted(path for path in tmp_path.rglob("*") if "writers" not in str(path))
    vacuum(spark)
    assert spark.table(view).count() == 3
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not root.exists()
    assert sorted(path for path in tmp_path.rglob("*") if "writers" not in str(path)) == there


def test_orphans_go_and_what_a_live_writer_wrote_stays(spark: SparkSession, view: str) -> None:
    from tidemill.runtime.storage import writers
    from tidemill.runtime.storage.files import Files

    root = folder(spark, view)
    orphans = [
        root / "part-00000-dead.parquet",
        root / "data-0000000007-abcdef01" / "part-00000.parquet",
        root / "_tidemill" / "state" / "s0" / "0000000007-abcdef01" / "part-00000.parquet",
        root / "_tidemill" / "definition" / f"{7:020d}.json",
        root / "_tidemill" / "log" / f"{7:020d}-abcdef01.0.json",
        root / "_tidemill" / "log" / f".{7:020d}.json.0123.tmp",
    ]
    for orphan in orphans:
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_text("{}")
    files = Files(jvm_of(spark))
    with writers.writing(files, str(root)):
        assert vacuum(spark) == []
    gone = vacuum(spark)
    assert {Path(unquote(p.removeprefix("file:"))) for p in gone} == set(orphans)
    assert not (root / "data-0000000007-abcdef01").exists()
    # The mark of an earlier version counts for a day.
    mark = root / "_tidemill" / "writers" / "dead.json"
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "1", "started": 0, "id": "dead"}))
    orphans[0].write_text("{}")
    assert vacuum(spark) == []
    os.utime(mark, (0, 0))
    assert len(vacuum(spark)) == 2


def test_what_a_killed_job_leaves_goes(spark: SparkSession, view: str) -> None:
    """Folders come before there is a file, and a copy of a task may write after the commit."""
    root = folder(spark, view)
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    refresh(spark)
    kept = {p for p in root.rglob("*") if p.is_dir()}
    runs = [*(root / "_tidemill" / "delta").iterdir(), *(root / "_tidemill" / "state").glob("*/*")]
    assert len(runs) >= 2
    dead = [root / "data-0000000007-abcdef01", root / "_tidemill" / "state" / "s0" / "0000000007-abcdef01"]
    late = [run / "part-00000-dead-a7.parquet" for run in (*runs, *dead)]
    for file in late:
        (file.parent / "k=1" / "l=2").mkdir(parents=True)
        file.write_text("half a fi")
    assert {Path(unquote(p.removeprefix("file:"))) for p in vacuum(spark)} == set(late)
    assert {p for p in root.rglob("*") if p.is_dir()} == kept
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches


def test_what_a_view_above_has_yet_to_read_stays(spark: SparkSession, view: str, oracle: Oracle) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT "
        "AS SELECT n, sum(s) AS s FROM v GROUP BY n"
    )
    for n in range(4):
        spark.sql(f"INSERT INTO events VALUES ({n}, {n}, 'n')")
        refresh(spark)
    vacuum(spark)
    assert refresh(spark, "above").kind == "INCREMENTAL"
    oracle("above", "SELECT n, sum(s) AS s FROM v GROUP BY n")
    assert vacuum(spark) != []
    spark.sql("DROP INCREMENTAL VIEW above")
    assert list((folder(spark, view) / "_tidemill" / "leases").glob("*.json")) == []


@pytest.mark.parametrize("query", [BY_KEY, TOP])
def test_a_lost_state_costs_only_itself(spark: SparkSession, events: str, oracle: Oracle, query: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for path in (folder(spark, "v") / "_tidemill" / "state").rglob("*.parquet"):
        path.unlink()
    row = refresh(spark)
    assert (row.kind, row.reason.partition(":")[0]) == ("INCREMENTAL", "STATE_LOST")
    oracle("v", query)
    spark.sql("INSERT INTO events VALUES (1, 100, 'z')")
    row = refresh(spark)
    assert (row.kind, row.reason) == ("INCREMENTAL", None)
    oracle("v", query)


def test_lost_content_is_made_from_states(spark: SparkSession, view: str, oracle: Oracle) -> None:
    for path in folder(spark, view).glob("*.parquet"):
        path.unlink()
    spark.sql("INSERT INTO events VALUES (1, 100, 'z')")
    row = refresh(spark)
    assert (row.kind, row.reason.partition(":")[0]) == ("INCREMENTAL", "STATE_LOST")
    oracle("v", BY_KEY)


def test_a_long_history_is_put_together(spark: SparkSession, view: str, oracle: Oracle) -> None:
    root = folder(spark, view)
    grow(str(root), 2 * SPAN + 3)
    entries = root / "_tidemill" / "log"
    before = len(list(entries.glob("*[0-9].json")))
    would_go = vacuum(spark, "RETAIN 0 HOURS DRY RUN")
    assert len(list(entries.glob("*[0-9].json"))) == before
    assert vacuum(spark) == would_go
    assert len(would_go) == 2 * SPAN
    assert sorted(int(p.stem) for p in entries.glob("*[0-9].json")) == [2 * SPAN, 2 * SPAN + 1, 2 * SPAN + 2]
    assert len(list((root / "_tidemill" / "checkpoints").glob("*[0-9].json"))) == 2
    assert vacuum(spark) == []
    rows = spark.sql("SHOW REFRESHES IN v").collect()
    assert [r.run for r in rows] == list(range(2 * SPAN + 3))[::-1]
    assert spark.sql("SHOW REFRESHES IN v LIMIT 5").collect() == rows[:5]
    spark.sql("INSERT INTO events VALUES (1, 1, 'z')")
    row = refresh(spark)
    assert (row.run, row.kind) == (2 * SPAN + 3, "INCREMENTAL")
    oracle("v", BY_KEY)


def test_a_listing_outlives_the_entry_that_it_was_written_beside(
    spark: SparkSession, events: str, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run 0 writes listings that later runs name again; a checkpoint takes its entry in, and the newest one is read."""
    monkeypatch.setattr(log, "LONG", 2)
    monkeypatch.setattr(log, "LONG_TEXT", 30)
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    root = folder(spark, "v")
    entries = root / "_tidemill" / "log"
    grow(str(root), SPAN + 3)
    spark.sql("INSERT INTO events VALUES (1, 1, 'z')")
    assert refresh(spark).kind == "INCREMENTAL"
    newest = SPAN + 3
    shared = {
        name for name in log.named(json.loads((entries / f"{newest:020d}.json").read_text())) if int(name[:20]) < SPAN
    }
    own = {p.name for p in entries.glob(f"{newest:020d}-*.json")}
    assert shared
    assert own
    orphan = entries / f"{1:020d}-abcdef01.0.json"
    orphan.write_text("[]")
    assert len(vacuum(spark)) > SPAN
    assert not (entries / f"{1:020d}.json").exists()
    beside = {p.name for p in entries.glob("*-*.json")}
    kept = [json.loads(p.read_text()) for p in entries.glob("*.json") if p.stem.isdigit()]
    assert beside == set().union(*map(log.named, kept))
    assert beside >= shared | own
    head = views.find(jvm_of(spark), ("v",)).head
    assert head is not None
    assert head.run == newest
    spark.sql("INSERT INTO events VALUES (2, 2, 'y')")
    row = refresh(spark)
    assert (row.kind, row.reason) == ("INCREMENTAL", None)
    oracle("v", BY_KEY)
    vacuum(spark)
    oracle("v", BY_KEY)
    assert [r.run for r in spark.sql("SHOW REFRESHES IN v LIMIT 2").collect()] == [newest + 1, newest]


def test_amendments_that_a_definition_has_taken_in_go(spark: SparkSession, view: str) -> None:
    for comment in ("one", "two"):
        spark.sql(f"ALTER INCREMENTAL VIEW v SET COMMENT '{comment}'")
    vacuum(spark)
    assert "COMMENT 'two'" in spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    amendments = folder(spark, view) / "_tidemill" / "amendments"
    late = views.find(jvm_of(spark), ("v",))
    vacuum(spark)
    assert list(amendments.glob("*.json")) == []
    spark.sql("ALTER INCREMENTAL VIEW v SET COMMENT 'three'")
    assert [p.stem for p in amendments.glob("*[0-9].json")] == [f"{3:020d}"]
    assert "COMMENT 'three'" in spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
    # A slow ALTER takes a number that has been taken in since.
    with (
        pytest.raises(TidemillError, match="CONCURRENT_REFRESH"),
        mock.patch.object(views, "newest_amendment", return_value=1),
    ):
        views.amend(late, SetComment("late"))
    assert [p.stem for p in amendments.glob("*[0-9].json")] == [f"{3:020d}"]
