"""The examples of docs/operators: what stands below the statements is what they answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference

PAGES = Path(__file__).resolve().parents[2] / "docs" / "operators"
EXAMPLE = re.compile(r"```sql\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
VIEW = re.compile(r"CREATE INCREMENTAL VIEW (\w+) .*? AS\n(.*)", re.DOTALL)
EXAMPLES = {page.stem: found for page in sorted(PAGES.glob("*.md")) if (found := EXAMPLE.search(page.read_text()))}


def test_every_operator_page_has_an_example() -> None:
    without = {page.stem for page in PAGES.glob("*.md")} - EXAMPLES.keys()
    assert without == {"README", "playbook"}


@pytest.mark.parametrize("page", EXAMPLES)
def test_example(spark: SparkSession, db: str, page: str) -> None:
    *statements, question = (s for s in EXAMPLES[page][1].split(";\n") if s.strip())
    for statement in statements:
        rows = spark.sql(statement).collect()
        assert not statement.startswith("REFRESH") or rows[0].kind == "INCREMENTAL"
    answer = [["NULL" if value is None else str(value) for value in row] for row in spark.sql(question).collect()]
    assert sorted(answer) == sorted(re.split("  +", line) for line in EXAMPLES[page][2].splitlines())
    for view, query in (found.groups() for s in statements if (found := VIEW.match(s))):
        assert difference(spark, view, query) == (0, 0)
