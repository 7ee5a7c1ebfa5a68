"""What pip makes of a checkout: a wheel with its jar, or an error that says what is missing. The wheel is enough."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import tidemill
from tests.project.test_readme import quick_start_in_pyspark, quick_start_in_spark_sql

ROOT = Path(__file__).resolve().parents[2]
SOURCES_WITH_JAR = """
import backend, sys
folder = sys.argv[1]
print(backend.get_requires_for_build_wheel(), file=sys.stderr)
backend.build_sdist(folder)
"""


def checkout(folder: Path) -> Path:
    """The files of the repository as someone has them who has just cloned it: no jar, no build."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in map(Path, listed.stdout.decode().splitlines()):
        if (ROOT / name).exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_java_nothing_is_built(tmp_path: Path) -> None:
    """The error says what is missing, whoever builds."""
    sources = checkout(tmp_path / "sources")
    for kind in ("bdist_wheel", "sdist"):
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", kind, "--dist-dir", str(tmp_path)],
            cwd=sources,
            env={**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "Java 17 is needed to make the jar: /nowhere/bin/java (JAVA_HOME) does not exist" in done.stderr
        assert "so nothing is built" in done.stderr
    assert list(tmp_path.iterdir()) == [sources]


@pytest.mark.jvm
def test_sources_with_their_jar_need_no_compiler(tmp_path: Path) -> None:
    """Here with the jar of this checkout, which is up to date."""
    sources = checkout(tmp_path / "sources")
    (jar,) = (ROOT / "python" / "tidemill" / "jars").glob("*.jar")
    (sources / "python" / "tidemill" / "jars").mkdir()
    (sources / "python" / "tidemill" / "jars" / jar.name).write_bytes(jar.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", SOURCES_WITH_JAR, str(tmp_path)],
        cwd=sources,
        env={**os.environ, "PATH": "/nowhere", "PYTHONPATH": str(sources / "jvm-bridge")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pyspark==" not in done.stderr
    (packed,) = tmp_path.glob("tidemill-*.tar.gz")
    with tarfile.open(packed) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    for wanted in (f"python/tidemill/jars/{jar.name}", "jvm-bridge/build.py", "rules/__init__.py", "setup.py"):
        assert wanted in names
    scala = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jvm-bridge" / "src").rglob("*.scala")}
    assert scala <= names


@pytest.mark.slow
def test_the_wheel_is_enough(tmp_path: Path) -> None:
    sources = checkout(tmp_path / "sources")
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
    assert tidemill.__version__ in wheel.name
    for quick_start in (quick_start_in_spark_sql, quick_start_in_pyspark):
        folder = tmp_path / quick_start.__name__
        folder.mkdir()
        quick_start(folder, empty / "bin")
