"""Steps over few rows in memory run without a job, and give the same rows as Spark's own tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, analyze, bag, unique, write
from tests.faults.checks import wait_for

T = "(SELECT k, v, s FROM VALUES (1, 10, 'a'), (1, 11, 'b'), (2, 20, 'a'), (NULL, 30, NULL), (3, 5, '') AS t(k, v, s))"
U = "(SELECT k, w FROM VALUES (1, 1.5D), (2, -0D), (2, double('nan')), (4, 9D), (NULL, 0D) AS u(k, w))"
QUERIES = {
    "projection": f"SELECT k + 1 AS k, concat(s, '!') AS s FROM {T} t WHERE v < 25",
    "groups": f"SELECT k, sum(v) AS s, avg(v) AS m, max(s) AS x, count(*) AS n FROM {T} t GROUP BY k",
    "groups of texts": f"SELECT s, collect_list(v) AS l, min(struct(v, k)) AS least FROM {T} t GROUP BY s",
    "different values": f"SELECT k, count(DISTINCT s) AS d, count(DISTINCT v) AS e FROM {T} t GROUP BY k",
    "one group": f"SELECT sum(v) AS s, percentile(v, 0.5) AS p FROM {T} t",
    "no rows": f"SELECT k, sum(v) AS s FROM {T} t WHERE v < 0 GROUP BY k",
    "join": f"SELECT t.k, v, w FROM {T} t JOIN {U} u ON t.k = u.k",
    "outer join": f"SELECT t.k, v, w FROM {T} t FULL JOIN {U} u ON t.k = u.k",
    "semi join": f"SELECT k, v FROM {T} t WHERE k IN (SELECT k FROM {U} u)",
    "anti join": f"SELECT k, v FROM {T} t WHERE NOT EXISTS (SELECT 1 FROM {U} u WHERE u.k = t.k)",
    "join by comparison": f"SELECT t.k, v, w FROM {T} t LEFT JOIN {U} u ON t.k < u.k",
    "window": f"SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r, lag(v) OVER (ORDER BY v) AS l FROM {T} t",
    "frame": f"SELECT v, sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM {T} t",
    "cut": f"SELECT k, v FROM {T} t ORDER BY v DESC LIMIT 2",
    "union": f"SELECT k, count(*) AS n FROM (SELECT k FROM {T} t UNION ALL SELECT k FROM {U} u) GROUP BY k",
    "rows of arrays": f"SELECT k, x FROM {T} t LATERAL VIEW explode(sequence(1, k)) AS x",
    "sub-query": f"SELECT k, v FROM {T} t WHERE v > (SELECT avg(v) FROM {T} u)",
}
WITH_JOBS = {"different values", "sub-query"}
"""Spark exchanges rows that it has multiplied, and collects by a job what it broadcasts but for rows in memory."""
ADAPTIVE = "spark.sql.adaptive.enabled"
SETTINGS: dict[str, dict[str, str]] = {
    "as usual": {ADAPTIVE: "false"},
    "sorted joins": {
        ADAPTIVE: "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.join.preferSortMergeJoin": "true",
    },
    "no compiled code": {ADAPTIVE: "false", "spark.sql.codegen.wholeStage": "false"},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", QUERIES)
def test_same_rows_without_a_job(spark: SparkSession, call: Call, tmp_path: Path, name: str, settings: str) -> None:
    document = analyze(call, QUERIES[name])
    columns = unique(document["output"])
    answer = write(call, document, document["root"], tmp_path / "out", columns, confs=SETTINGS[settings])
    assert answer["jobs"] == 0 or name in WITH_JOBS
    assert bag(spark.read.parquet(str(tmp_path / "out"))) == bag(spark.sql(QUERIES[name]))
    call("release", query=document["query"])


def test_adaptive_plans_are_left_to_executors(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """Spark's threads free what operators of such a plan hold, whenever a stage is done."""
    settings = SETTINGS["sorted joins"] | {ADAPTIVE: "true", "spark.sql.adaptive.forceApply": "true"}
    document = analyze(call, QUERIES["outer join"])
    columns = unique(document["output"])
    answer = write(call, document, document["root"], tmp_path / "out", columns, confs=settings)
    assert answer["jobs"] > 0
    assert bag(spark.read.parquet(str(tmp_path / "out"))) == bag(spark.sql(QUERIES["outer join"]))


def test_many_rows_are_left_to_executors(call: Call, tmp_path: Path) -> None:
    document = analyze(call, f"SELECT x FROM VALUES {', '.join(f'({n})' for n in range(5001))} AS t(x) GROUP BY x")
    answer = write(call, document, document["root"], tmp_path / "out", unique(document["output"]))
    assert answer["jobs"] > 0
    assert answer["rows"] == 5001


def held(blocks: Any) -> int:
    """Returns how many tasks may hold locks: each has an entry beside those of blocks, which come and go meanwhile."""
    while True:
        size = int(blocks.size())
        entries = int(blocks.getNumberOfMapEntries())
        if int(blocks.size()) == size:
            return entries - size


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_tasks_held_is_given_back(spark: SparkSession, call: Call, tmp_path: Path, settings: str) -> None:
    """Memory, locks of broadcasts, and the thread, which is no task's afterwards; also where a task fails."""
    assert spark._jvm is not None
    env: Any = spark._jvm.org.apache.spark.SparkEnv.get()
    known = env.blockManager().blockInfoManager()
    broken = {"fn": "raise_error", "args": [{"lit": "boom", "type": "string"}]}
    document = analyze(call, QUERIES["outer join" if settings == "sorted joins" else "join"])
    columns = unique(document["output"])
    answer = write(call, document, document["root"], tmp_path / "done", columns, confs=SETTINGS[settings])
    assert answer["jobs"] == 0
    locks = held(known)
    for number in range(3):
        write(call, document, document["root"], tmp_path / str(number), columns, confs=SETTINGS[settings])
        plan = {"op": "project", "columns": [[90, broken]], "inputs": [document["root"]]}
        with pytest.raises(RuntimeError, match="boom"):
            write(call, document, plan, tmp_path / "broken", [[90, "x"]], confs=SETTINGS[settings])
        assert not (tmp_path / "broken").exists()
    # What an earlier test left running, and Spark's cleaner, hold some for a moment as well.
    wait_for(lambda: int(env.memoryManager().executionMemoryUsed()) == 0, "memory is given back", seconds=20)
    wait_for(lambda: held(known) <= locks, "locks are given back", seconds=20)
    assert spark._jvm.org.apache.spark.TaskContext.get() is None
    call("release", query=document["query"])
