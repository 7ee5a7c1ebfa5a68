"""`tidemill.configure` adds to what is there; see test_parser.py for what it makes of a session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

import tidemill
from tidemill.driver import attach
from tidemill.driver.jar import jar_path


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SparkSession.Builder:
    """A builder in a process without a JVM whose spark-defaults.conf has settings."""
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("# defaults\nspark.jars  a.jar\nspark.sql.extensions=x.Y\n\nodd\n")
    return SparkSession.Builder()


def test_settings_are_added_to(fresh: SparkSession.Builder) -> None:
    fresh.config("spark.sql.extensions", "a.B")
    for _ in range(2):
        tidemill.configure(fresh)
    assert fresh._options["spark.jars"] == f"a.jar,{jar_path()}"
    assert fresh._options["spark.sql.extensions"] == f"a.B,{attach.EXTENSION}"


def test_delta(fresh: SparkSession.Builder) -> None:
    fresh.config("spark.jars.packages", "a:b:1")
    tidemill.configure(fresh, formats=["delta"])
    assert fresh._options["spark.jars.packages"] == f"a:b:1,io.delta:delta-spark_4.2_2.13:{attach.DELTA_VERSION}"
    assert fresh._options["spark.sql.extensions"] == f"x.Y,{attach.DELTA_EXTENSION},{attach.EXTENSION}"
    assert fresh._options[attach.CATALOG] == attach.DELTA_CATALOG


def test_what_the_user_chose_for_delta_stays(fresh: SparkSession.Builder) -> None:
    fresh.config("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:9.9.9").config(attach.CATALOG, "my.Catalog")
    tidemill.configure(fresh, formats=["delta"])
    assert fresh._options["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:9.9.9"
    assert fresh._options[attach.CATALOG] == "my.Catalog"


def test_generated_classes_are_kept_unless_the_user_says_otherwise(fresh: SparkSession.Builder) -> None:
    tidemill.configure(fresh)
    assert fresh._options[attach.CODE_CACHE] == "2000"
    fresh.config(attach.CODE_CACHE, "7")
    tidemill.configure(fresh)
    assert fresh._options[attach.CODE_CACHE] == "7"


def test_unknown_formats_are_named(fresh: SparkSession.Builder) -> None:
    with pytest.raises(ValueError, match="hudi"):
        tidemill.configure(fresh, formats=["delta", "hudi"])
    assert "spark.jars" not in fresh._options


def test_a_builder_for_a_server_elsewhere_is_left_alone(fresh: SparkSession.Builder) -> None:
    fresh.config("spark.remote", "sc://somewhere:15002")
    tidemill.configure(fresh)
    assert set(fresh._options) == {"spark.remote"}


def test_long_answers_wait_for_nothing(spark: SparkSession) -> None:
    """py4j writes them in parts; TCP would hold back the second part for 40 ms. Also in threads that come later."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getCallbackClient()

    def at_once() -> bool:
        return bool(client.getPerThreadConnection().getSocket().getTcpNoDelay())

    with ThreadPoolExecutor(1) as later:
        assert (at_once(), later.submit(at_once).result()) == (True, True)
