"""spark.tidemill.debug.requests: what the planner is asked for runs is written to files, which are planned again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.runtime.conftest import SUMMARY
from tidemill import cli
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.service.pool import SEARCH_POOL

Refresh = Callable[..., Row]
SETTING = "spark.tidemill.debug.requests"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    spark.conf.set(SETTING, str(tmp_path / "requests"))
    yield tmp_path / "requests"
    spark.conf.unset(SETTING)


def test_what_the_planner_is_asked_is_written(
    spark: SparkSession, sales: str, refresh: Refresh, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    (loaded,) = folder.iterdir()
    assert loaded.name.endswith("-query.json")
    spark.sql("INSERT INTO sales VALUES ('o5','secret category',300)")
    row = refresh("summary")
    (run,) = set(folder.iterdir()) - {loaded}
    assert run.name.endswith(f"-spark_catalog.{sales}.summary-run-1.json")
    assert cli.main(["debug", "replay", str(run)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{row.kind} ")
    assert f"estimated: {row.estimated_cost:.3f} ms" in shown
    for path in (loaded, run):
        text = path.read_text(encoding="utf-8")
        assert "secret category" not in text
    spark.sql("EXPLAIN INCREMENTAL VIEW summary").collect()
    assert len(list(folder.iterdir())) == 3


def test_the_folder_does_not_decide_what_is_planned(
    spark: SparkSession, sales: str, refresh: Refresh, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    searched: list[PlanRequest] = []
    search = SEARCH_POOL.plan

    def noted(request: PlanRequest) -> RunPlan:
        searched.append(request)
        return search(request)

    monkeypatch.setattr(SEARCH_POOL, "plan", noted)
    for n in range(3):
        spark.sql(f"INSERT INTO sales VALUES ('n{n}','c1',300)")
        refresh("summary")
        spark.conf.set(SETTING, str(folder.with_name(f"other {n}")))
    assert len(searched) == 1
    assert searched[0].settings.debug_requests == ""


def test_a_run_does_not_fail_for_it(spark: SparkSession, sales: str, refresh: Refresh, folder: Path) -> None:
    folder.write_text("not a folder")
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    assert refresh("summary").run == 1
