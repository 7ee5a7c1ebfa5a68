"""Quick starts and tutorial, typed as a new user types them, give what the pages show (`...` stands for anything)."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "spark-sql (default)> "
MORE = "                   > "


def blocks(language: str, page: str = "README.md") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def session(block: str) -> Iterator[tuple[str, str]]:
    """Statements as typed, each with the output shown behind it."""
    for part in block.split(PROMPT)[1:]:
        lines = part.splitlines()
        count = 1 + sum(line.startswith(MORE) for line in lines)
        yield "\n".join(line.removeprefix(MORE) for line in lines[:count]), "\n".join(lines[count:])


def after_echo(statement: str, text: str) -> str:
    """What spark-sql printed behind its echo of what it read, which it breaks at the width of a terminal."""
    lines = text.splitlines()
    for count in range(len(lines) + 1):
        echo = "".join(line.removeprefix(MORE) for line in lines[:count])
        if "".join(echo.split()) == "".join(statement.split()):
            return "\n".join(lines[count:])
    return text


def matches(shown: str, given: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), given) is not None


def without_codes(text: str) -> str:
    """Without the lines that spark-sql prints in place of a header for statements without an answer."""
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() != "Response code")


def environment() -> dict[str, str]:
    """A new user's: nothing of this test run's Spark."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}


def quick_start_in_spark_sql(folder: Path, programs: Path) -> None:
    """Types the quick start into the `tidemill sql` of an environment, in a folder."""
    (block,) = blocks("console")
    typed = list(session(block))
    assert len(typed) > 10
    script = "".join(f"{statement}\n" for statement, _ in typed)
    command = [str(programs / "tidemill"), "sql", "-S", "--master", "local[2]"]
    done = subprocess.run(
        command, cwd=folder, env=environment(), input=script, capture_output=True, text=True, timeout=300, check=False
    )
    given = done.stdout.split(PROMPT)[1:]
    assert len(given) > len(typed), done.stdout + done.stderr
    outputs = [without_codes(after_echo(s, part)).rstrip("\n") for (s, _), part in zip(typed, given, strict=False)]
    wrong = [(s, shown, got) for (s, shown), got in zip(typed, outputs, strict=True) if not matches(shown, got)]
    assert not wrong, f"{wrong}\n{done.stderr}"


def quick_start_in_pyspark(folder: Path, programs: Path, page: str = "README.md") -> None:
    """Types the examples of a page into the Python of an environment, in a folder."""
    (folder / "quick_start.txt").write_text("\n".join(blocks("pycon", page)), encoding="utf-8")
    code = "import doctest, sys; sys.exit(doctest.testfile(sys.argv[1], False, optionflags=doctest.ELLIPSIS).failed)"
    done = subprocess.run(
        [str(programs / "python"), "-c", code, "quick_start.txt"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_spark_sql(tmp_path: Path) -> None:
    quick_start_in_spark_sql(tmp_path, Path(sys.executable).parent)


@pytest.mark.slow
def test_pyspark(tmp_path: Path) -> None:
    quick_start_in_pyspark(tmp_path, Path(sys.executable).parent)


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    quick_start_in_pyspark(tmp_path, Path(sys.executable).parent, "docs/start.md")


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
        missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
        assert not missing, page
