"""A calibration from end to end, far too small to be good for anything, and plans made with its file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from tidemill.calibrate.benchmarks import RECIPES
from tidemill.calibrate.command import STEP_SETTINGS, calibrate
from tidemill.cost.costing import Calibrated
from tidemill.cost.models import SETTING, cost_model

QUERY = "SELECT g, sum(x) AS s FROM t GROUP BY g"
SCALE = 0.001
SMALL_COMMAND = f"""
from functools import partial
from tidemill import cli
from tidemill.calibrate import command
command.calibrate = partial(command.calibrate, scale={SCALE})
raise SystemExit(cli.main())
"""


@pytest.fixture
def constants(spark: SparkSession) -> Iterator[Callable[[Path], None]]:
    """Sets the file of constants for the rest of the test."""
    yield lambda path: spark.conf.set(SETTING, str(path))
    spark.conf.unset(SETTING)


@pytest.mark.slow
def test_calibrate_and_plan_with_it(
    spark: SparkSession, db: str, tmp_path: Path, constants: Callable[[Path], None], refresh: Callable[..., Row]
) -> None:
    before = {name: spark.conf.get(name, None) for name in STEP_SETTINGS}
    output, said = tmp_path / "costs.json", list[str]()
    found = calibrate(spark, output, rounds=1, scale=SCALE, say=said.append)
    assert {name: spark.conf.get(name, None) for name in STEP_SETTINGS} == before
    assert [p.name for p in tmp_path.iterdir()] == [output.name]
    assert f"{SETTING} {output}" in said
    model = cost_model("default", str(output))
    assert isinstance(model, Calibrated)
    read = {c.name: c.value for c in model.constants if c.measured}
    assert read == pytest.approx({name: found[name].value for name in RECIPES}, rel=0.01)

    spark.sql("CREATE TABLE t (g INT, x INT) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 2)")
    constants(output)
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {QUERY}")
    once = estimated(spark)
    content = json.loads(output.read_text())
    content["constants"] = {name: 3 * value for name, value in content["constants"].items()}
    (tmp_path / "three.json").write_text(json.dumps(content))
    constants(tmp_path / "three.json")
    assert estimated(spark) == pytest.approx(3 * once, rel=0.01)
    spark.sql("INSERT INTO t VALUES (1, 5)")
    assert refresh("v").run == 1

    spark.sql("INSERT INTO t VALUES (2, 1)")
    constants(tmp_path / "gone.json")
    with pytest.raises(AnalysisException) as error:
        refresh("v")
    assert error.value.getCondition() == "TIDEMILL_INVALID_SETTING"
    assert error.value.getSqlState() == "22023"
    spark.conf.unset(SETTING)
    assert refresh("v").run == 2
    assert sorted(map(tuple, spark.table("v").collect())) == [(1, 7), (2, 1)]


def estimated(spark: SparkSession) -> float:
    row = spark.sql("EXPLAIN INCREMENTAL JSON VIEW v").first()
    assert row is not None
    return float(json.loads(row[0])["estimated"]["total"])


@pytest.mark.parametrize("output", [".", "missing/costs.json"])
def test_what_cannot_be_written_is_noticed_first(spark: SparkSession, tmp_path: Path, output: str) -> None:
    said: list[str] = []
    with pytest.raises(OSError, match=r"directory"):
        calibrate(spark, tmp_path / output, say=said.append)
    assert not said
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SMALL_COMMAND, "calibrate", "--rounds", "1", "--output", "costs.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SETTING} {tmp_path / 'costs.json'}" in done.stdout.splitlines()
    cost_model("default", str(tmp_path / "costs.json"))
