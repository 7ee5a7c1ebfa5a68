"""Rows that leave a result are looked for only where they can be, and cut out of files that else stay as they are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, location_of, newest_entry
from tidemill.cost.costing import RESULT_PAGE_ROWS
from tidemill.errors import TidemillError
from tidemill.runtime.content import apply, leaving
from tidemill.runtime.content.jobs import SparkJobs, Written
from tidemill.runtime.content.leaving import Found, Left, ResultColumn, may_hold, observed_columns
from tidemill.search.contract.stored import CROWD

Refresh = Callable[..., Row]
KEY, NAME, PRICE = ResultColumn("k", "long"), ResultColumn("s", "string"), ResultColumn("x", "double")


def file(name: str, bounds: Mapping[str, Any] | None = None, mebibytes: int = 10) -> dict[str, Any]:
    entry = {"path": f"file:/v/{name}", "bytes": mebibytes << 20, "modified": 0}
    return entry if bounds is None else entry | {"bounds": bounds}


class Recorded(SparkJobs):
    """Jobs that are only recorded: as (step, files read or cut)."""

    # A frozen class with slots has no room for more: the answers are those of the class.
    log: list[tuple[str, list[str]]]
    found: list[list[Any]] | None
    whole: bool

    def fit(self, files: Any) -> None:
        """Nothing is run."""

    def write(self, plan: Any, *args: Any, **named: Any) -> Written:
        self.log.append((named["step"], sorted(read(plan))))
        return Written((file("new", mebibytes=1),), 1, {})

    def few_rows(self, plan: Any, *args: Any, **named: Any) -> list[list[Any]] | None:
        self.log.append((named["step"], sorted(read(plan))))
        return self.found

    def rows(self, plan: Any, *args: Any, **named: Any) -> list[list[Any]]:
        self.log.append((named["step"], sorted(read(plan))))
        return [["file:/v/a"]]

    def cut(self, rows: Any, path: str, *, step: str) -> list[Any]:
        self.log.append((step, [f["path"][8:] for f, _ in rows]))
        return [None if self.whole else {**file("copy"), "rows": 7} for _ in rows]

    @property
    def cores(self) -> int:
        return 2


def read(plan: Mapping[str, Any]) -> set[str]:
    """Names of the files that a plan reads."""
    own = {p["path"].rsplit("/", 1)[1] for p in plan.get("paths", ())}
    return own.union(*map(read, plan.get("inputs", ())))


def applied(
    live: Sequence[Mapping[str, Any]], delta: apply.Delta, found: Any = None, whole: bool = False, keys: Any = None
) -> tuple[list[tuple[str, list[str]]], apply.Applied]:
    jobs = Recorded(None, 1, "v", 1)  # type: ignore[arg-type]  # nothing is run
    Recorded.log, Recorded.found, Recorded.whole = [], found, whole
    return Recorded.log, apply.apply_delta(jobs, [KEY, NAME, PRICE], keys, live, delta, "file:/t")


def signed(inserts: int, deletes: int, *left: Left) -> apply.Delta:
    return apply.Delta((file("delta", mebibytes=0),), inserts, deletes, "_n", left)


def paths(files: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f["path"][8:] for f in files]


def test_rows_that_only_arrive_touch_no_file() -> None:
    log, result = applied([file("a"), file("b")], signed(5, 0))
    assert log == [("apply", ["delta"])]
    assert (paths(result.kept), paths(result.added)) == (["a", "b"], ["new"])


def test_files_whose_bounds_rule_the_rows_out_are_not_opened() -> None:
    live = [file("a", {"k": [0, 9]}), file("b", {"k": [10, 19]}), file("c", {"k": [30, 39]}), file("d")]
    left = Left(KEY, (12, 25), 12, 25, False)
    found = [["file:/v/b", 3, "file:/v/delta", 0, -1], ["file:/v/d", 4, "file:/v/delta", 1, -1]]
    log, result = applied(live, signed(1, 2, left), found)
    assert log == [("find rows that leave", ["b", "d", "delta"]), ("cut rows", ["b", "d"]), ("apply", ["delta"])]
    assert (paths(result.kept), paths(result.removed)) == (["a", "c"], ["b", "d"])
    many = Left(KEY, None, 12, 25, False)  # too many values to be told: their range
    assert applied(live, signed(1, 2, many), found)[0] == log
    unknown = Left(KEY, (12, 25), 12, 25, True)  # bounds say nothing of NULLs
    assert applied(live, signed(1, 2, unknown), found)[0][0][1] == ["a", "b", "c", "d", "delta"]


def test_deletes_alone_write_nothing_beside_the_copies() -> None:
    log, result = applied([file("a")], signed(0, 1), [["file:/v/a", 3, "file:/v/delta", 0, -1]])
    assert [step for step, _ in log] == ["find rows that leave", "cut rows"]
    assert paths(result.added) == ["copy"]


def test_a_file_of_another_layout_is_read_and_written() -> None:
    found = [["file:/v/a", 3, "file:/v/delta", 0, -1]]
    log, result = applied([file("a"), file("b")], signed(1, 1), found, whole=True)
    assert log[1:] == [("cut rows", ["a"]), ("apply", ["a", "delta"])]
    assert (paths(result.kept), paths(result.added)) == (["b"], ["new"])


def test_where_very_many_rows_leave_touched_files_are_written_anew() -> None:
    steps = ["find rows that leave", "find touched files", "apply"]
    for keys, deletes in ((None, 1_000_000), (["k"], 1_000_000), (None, 1)):  # of the one there are many copies
        log, result = applied([file("a"), file("b")], signed(1, deletes), None, keys=keys)
        assert [step for step, _ in log] == (steps if deletes == 1 else steps[1:])
        assert log[-1][1] == ["a", "delta"]
        assert paths(result.kept) == ["b"]


def test_rows_that_are_not_there_are_missed() -> None:
    with pytest.raises(TidemillError, match="removes 2 row values"):
        applied([file("a")], signed(0, 3), [["file:/v/a", 3, "file:/v/delta", 0, -1]])
    with pytest.raises(TidemillError, match="removes 3 row values"):
        applied([file("a", {"k": [0, 9]})], signed(0, 3, Left(KEY, (12,), 12, 12, False)))


def test_rows_whose_places_are_known_are_not_looked_for() -> None:
    delta = apply.Delta((file("delta", mebibytes=0),), 1, 1, "_n", (), Found({"file:/v/a": (3,)}, 0))
    log, result = applied([file("a"), file("b")], delta)
    assert log == [("cut rows", ["a"]), ("apply", ["delta"])]
    assert paths(result.kept) == ["b"]


def test_a_hundred_runs_pile_up_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows arrive in each run and leave from any file: the files stay few, and each byte is merged only a few times."""
    merged, numbers = 0, itertools.count()

    def sizes(plan: Mapping[str, Any]) -> dict[str, int]:
        own = {p["path"]: p["bytes"] for p in plan.get("paths", ())}
        return own | {k: v for below in plan.get("inputs", ()) for k, v in sizes(below).items()}

    def write(self: Recorded, plan: Any, *args: Any, **named: Any) -> Written:
        nonlocal merged
        size = sum(sizes(plan).values())
        merged += size
        return Written(({"path": f"file:/v/n{next(numbers)}", "bytes": size, "modified": 0},), 1, {})

    def cut(self: Recorded, rows: Any, path: str, *, step: str) -> list[Any]:
        return [{**f, "path": f"file:/v/c{next(numbers)}", "bytes": f["bytes"] - 1000, "rows": 9} for f, _ in rows]

    monkeypatch.setattr(Recorded, "write", write)
    monkeypatch.setattr(Recorded, "cut", cut)
    arriving = 300_000
    live: tuple[Mapping[str, Any], ...] = (file("first", mebibytes=30),)
    delta = apply.Delta(({"path": "file:/v/delta", "bytes": arriving, "modified": 0},), 9, 1, "_n")
    most, chosen = 0, random.Random(1)
    for _ in range(100):
        _, result = applied(live, delta, [[chosen.choice(live)["path"], 3, "file:/v/delta", 0, -1]])
        live = result.live
        most = max(most, len(live))
    assert most <= 2 * CROWD
    assert 29 << 20 < sum(f["bytes"] for f in live) - 100 * arriving < 31 << 20
    assert merged < 100 * arriving * 8


def test_columns_that_are_observed() -> None:
    columns = [PRICE, *(ResultColumn(f"c{i}", "integer") for i in range(5)), KEY]
    assert [c.name for c in observed_columns(columns, None)] == ["c0", "c1", "c2", "c3"]
    assert observed_columns(columns, ["k"]) == [KEY]
    assert may_hold(file("a", {}), [Left(KEY, (1,), 1, 1, False)])
    assert not may_hold(file("a", {"k": [2, 3], "s": ["a", "b"]}), [Left(KEY, (1,), 1, 1, False)])


def test_rows_are_cut_out_of_pages_of_every_kind(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    query = """SELECT *, id % 7 AS few, CAST(id AS STRING) AS text, CAST(id % 5 AS STRING) AS word, id / 3 AS x,
        CAST(id AS FLOAT) AS f, CAST(id AS DECIMAL(9,2)) AS d9, CAST(id AS DECIMAL(38,2)) AS d38, id % 3 = 0 AS flag,
        CAST(CAST(id AS STRING) AS BINARY) AS b, DATE'2020-01-01' + CAST(id % 900 AS INT) AS day,
        TIMESTAMP_SECONDS(id) AS at, IF(id % 4 = 0, NULL, id) AS sparse, CAST(NULL AS INT) AS nothing,
        IF(id % 6 = 0, NULL, sequence(1, id % 4)) AS list, map('k', IF(id % 2 = 0, NULL, id)) AS m,
        named_struct('a', IF(id % 5 = 0, NULL, id), 'b', array(named_struct('c', id))) AS s FROM t"""
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(0, 20000, 1, 1)")
    spark.sql(f"CREATE INCREMENTAL VIEW every SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for change in ("id % 5001 = 3 OR id BETWEEN 3990 AND 12010", "id % 900 = 5 OR id = 19999", "id >= 0"):
        spark.sql(f"DELETE FROM t WHERE {change}")
        refresh("every")
        oracle("every", query)
        if change != "id >= 0":
            (found,) = newest_entry(location_of(spark, "every"))["files"]
            rest = spark.sql("SELECT count(*), min(id), max(id) FROM t").collect()[0]
            assert [found["rows"], *found["bounds"]["id"]] == list(rest)
            assert spark.sql("SELECT * FROM every WHERE text = '14501' AND id = 14501").count() == 1


def test_of_rows_that_are_the_same_as_many_go_as_the_delta_says(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    spark.sql("CREATE TABLE t USING delta AS SELECT id, CAST(id % 10 AS INT) AS v FROM range(0, 3000, 1, 2)")
    spark.sql("CREATE INCREMENTAL VIEW bag SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT v, 'x' AS w FROM t")
    for change in ("DELETE FROM t WHERE id IN (4, 2014, 2024)", "UPDATE t SET v = 99 WHERE id % 1000 = 5"):
        spark.sql(change)
        refresh("bag")
        oracle("bag", "SELECT v, 'x' AS w FROM t")
    monkeypatch.setattr(leaving, "MOST_FOUND", 1)  # very many rows leave
    spark.sql("DELETE FROM t WHERE id IN (7, 17, 2017)")
    refresh("bag")
    oracle("bag", "SELECT v, 'x' AS w FROM t")


def moved(spark: SparkSession, action: Callable[[], Any]) -> tuple[int, int]:
    """The rows that the Spark jobs of an action read from files and wrote into files."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    assert gateway is not None

    def stages() -> dict[int, tuple[int, int]]:
        context.listenerBus().waitUntilEmpty()
        nothing = gateway.new_array(gateway.jvm.double, 0)
        found = context.statusStore().stageList(None, False, False, nothing, gateway.jvm.java.util.ArrayList())
        listed = [found.apply(i) for i in range(found.size())]
        return {s.stageId(): (s.inputRecords(), s.outputRecords()) for s in listed}

    before = stages()
    action()
    new = [rows for stage, rows in stages().items() if stage not in before]
    return sum(read for read, _ in new), sum(written for _, written in new)


@pytest.mark.slow
def test_a_change_of_a_million_rows_reads_and_writes_few(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh
) -> None:
    query = "SELECT id, v * 2 AS w, CAST(id AS STRING) AS s FROM t"
    spark.sql("CREATE TABLE t (id BIGINT, v INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO t SELECT id, CAST(id % 1000 AS INT) FROM range(0, 1000000, 1, 4)")
    spark.sql(f"CREATE INCREMENTAL VIEW million SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("DELETE FROM t WHERE id IN (5, 250000, 250001, 999999)")
    spark.sql("INSERT INTO t SELECT 2000000 + id, 1 FROM range(50)")
    runs: list[Row] = []
    read, written = moved(spark, lambda: runs.append(refresh("million")))
    # Three pages hold the four rows: they are read by the search and by the copy, and written once.
    assert read < 3 * 2 * RESULT_PAGE_ROWS + 500
    assert written < 3 * RESULT_PAGE_ROWS + 200
    assert 0 <= read - runs[0].rows_read < 200, "all but Delta's own reading of its log"
    oracle("million", query)
