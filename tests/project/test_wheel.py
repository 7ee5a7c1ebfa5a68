"""The wheel is enough: installed into an empty environment it creates, refreshes and verifies a view."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import tidemill

ROOT = Path(__file__).resolve().parents[2]
VIEW = """
from pyspark.sql import SparkSession
import tidemill

assert "site-packages" in tidemill.__file__, tidemill.__file__
spark = tidemill.configure(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")).getOrCreate()
spark.sql("CREATE TABLE t (k INT, v INT) USING parquet")
spark.sql("INSERT INTO t VALUES (1, 2), (2, 3)")
view = tidemill.create_incremental_view(spark, "s", "SELECT k, sum(v) AS v FROM t GROUP BY k")
spark.sql("INSERT INTO t VALUES (1, 5)")
assert view.refresh().run == 1
assert view.verify().matches
assert sorted(tuple(row) for row in view.toDF().collect()) == [(1, 7), (2, 3)]
view.drop()
"""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_is_enough(tmp_path: Path) -> None:
    # From a copy without build/: setuptools takes what earlier builds left there.
    sources = tmp_path / "sources"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    jars = [path.relative_to(ROOT) for path in (ROOT / "python" / "tidemill" / "jars").glob("*.jar")]
    for name in [*map(Path, listed.stdout.decode().splitlines()), *jars]:
        target = sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, sources)

    (wheel,) = tmp_path.glob("tidemill-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("errors.json", "py.typed", "cli.py", "rules/__init__.py", "cost_model/__init__.py"):
        assert f"tidemill/{wanted}" in names
    assert any(name.startswith("tidemill/jars/tidemill-spark_4.2_2.13") for name in names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "examples"))]
    here = {path.relative_to(ROOT / "rules").as_posix() for path in (ROOT / "rules").rglob("*.py")}
    assert here == {
        n.removeprefix("tidemill/rules/") for n in names if n.startswith("tidemill/rules/") and n.endswith(".py")
    }

    empty = tmp_path / "empty"
    venv.create(empty, with_pip=True)
    run(empty / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    run(empty / "bin" / "tidemill", "jar", cwd=tmp_path)
    run(empty / "bin" / "python", "-c", VIEW, cwd=tmp_path)
    assert tidemill.__version__ in wheel.name
