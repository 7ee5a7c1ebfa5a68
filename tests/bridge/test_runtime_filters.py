"""Few rows in memory pick the rows that the other side of a join reads, and change no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, rows
from tests.bridge.test_nodes import col, fn, lit
from tidemill.runtime.before.sessions import PHYSICAL

QUERY = """SELECT a.k, a.d, a.s, a.x, b.k AS l, b.d AS e, b.s AS t, b.x AS y
FROM parquet.`{0}/{1}` a CROSS JOIN parquet.`{0}/big` b"""
KINDS = ("inner", "left", "right", "full", "semi", "anti")
COLUMNS = [[100, "k", "long"], [101, "d", "date"], [102, "s", "string"], [103, "x", "double"]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`big` and `few`, with NULLs and with values that the other has not."""
    path = tmp_path_factory.mktemp("filters")
    columns = """IF(id % 50 = 7, NULL, {0}) AS k, DATE_ADD(DATE '2024-01-01', CAST({0} AS INT)) AS d,
        IF(id % 40 = 3, NULL, concat('s', {0})) AS s, IF(id % 30 = 1, DOUBLE('NaN'), CAST({0} AS DOUBLE)) AS x"""
    big = spark.sql(f"SELECT {columns.format('id')} FROM range(0, 2000, 1, 2)")
    big.write.option("parquet.page.row.count.limit", 500).option("parquet.block.size", 100_000).parquet(
        str(path / "big")
    )
    spark.sql(f"SELECT {columns.format('(id * 37 % 1900 + 300)')} FROM range(60)").coalesce(1).write.parquet(
        str(path / "few")
    )
    large = f"SELECT {columns.format('id')}, hash(id) AS h FROM range(0, 300000, 1, 2)"
    spark.sql(large).write.parquet(str(path / "large"))
    few = spark.read.parquet(str(path / "few"))
    few.createOrReplaceTempView("few")
    more = "SELECT k + 3 * n AS k, d, s, x FROM few CROSS JOIN (SELECT explode(sequence(1, 10)) AS n)"
    spark.sql(more).coalesce(1).write.parquet(str(path / "more"))
    spark.catalog.dropTempView("few")
    return path


@pytest.fixture(autouse=True)
def as_steps_run(spark: SparkSession) -> Iterator[None]:
    """Bounds of files are compared with as many values as in the sessions of steps."""
    name = "spark.sql.parquet.pushdown.inFilterThreshold"
    spark.conf.set(name, PHYSICAL[name])
    yield
    spark.conf.unset(name)


def scans(node: Document) -> list[Document]:
    """The sources of a tree, from left to right."""
    own = [node] if node["op"] == "scan" else []
    return own + [scan for child in node.get("inputs", ()) for scan in scans(child)]


def handed_on(call: Call, document: Document, plan: Document, path: Path, few: int) -> Document:
    """The rows of a source, in memory or in a file, as a later step sees them."""
    sink = {"kind": "parquet", "path": str(path), "columns": plan["columns"], "few": few, "memory": True}
    answer = call("run", query=document["query"], plan=plan, view="v", run=0, output="x", sink=sink)
    return {"op": "files", "paths": answer["files"], "columns": COLUMNS}


def joined(kind: str, few: Document, big: Document, condition: list[Any], swapped: bool) -> Document:
    inputs = [big, few] if swapped else [few, big]
    return {"op": "join", "kind": kind, "condition": condition, "inputs": inputs}


def conditions(big: dict[str, int]) -> dict[str, list[Any]]:
    k, d, s, x = (big[n] for n in "kdsx")

    def start_or(other: Any) -> Any:
        return fn("or", other, fn(">=", col(d), col(101)))

    return {
        "equal": [fn("=", col(100), col(k))],
        "null safe": [fn("<=>", col(k), col(100))],
        "text": [fn("<=>", col(102), col(s)), fn("=", col(101), col(d))],
        "range": [fn(">=", col(d), fn("date_sub", col(101), lit(3, "integer"))), fn("<=", col(d), col(101))],
        "range with key": [fn("=", fn("%", col(k), lit(9, "long")), lit(3, "long")), fn("<", col(100), col(k))],
        "range from a start": [start_or(fn("isnull", col(101)))],
        "range from a start, or all": [start_or(fn("or", fn("isnull", col(101)), fn("isnull", col(100))))],
        "range with own rows": [start_or(fn("and", fn("isnull", col(s)), fn("<", col(k), lit(100, "long"))))],
        "floats": [fn("=", col(103), col(x))],
    }


NAMES = ["equal", "null safe", "text", "range", "range with key", "range with own rows", "floats"]
MORE = [pytest.param(name, marks=pytest.mark.slow) for name in ("range from a start", "range from a start, or all")]


@pytest.mark.parametrize("name", [*NAMES, *MORE])
@pytest.mark.parametrize("table", ["few", pytest.param("more", marks=pytest.mark.slow)])
def test_no_answer_changes(call: Call, tables: Path, tmp_path: Path, name: str, table: str) -> None:
    """Joins of every kind, with few rows on either side, in memory and in a file; more keys than are listed, too."""
    document = analyze(call, QUERY.format(tables, table))
    own, other = scans(document["root"])
    memory, file = (handed_on(call, document, own, tmp_path / str(n), n) for n in (5000, 0))
    big = {field: column for column, field in other["columns"]}
    condition = conditions(big)[name]
    for kind in KINDS:
        if kind == "full" and name.startswith("range"):
            continue  # Spark joins in full by a range only with all pairs
        for swapped in (False, True):
            sides = [100, 101, 102] if not swapped else [big[n] for n in "kds"]
            shown = sides if kind in {"semi", "anti"} else [100, 101, 102, *(big[n] for n in "kds")]
            found = [
                rows(call, document, joined(kind, few, other, condition, swapped), shown) for few in (memory, file)
            ]
            assert found[0] == found[1], (kind, swapped)
    call("release", query=document["query"])


@pytest.mark.parametrize(
    ("name", "kind", "swapped", "pushed"),
    [
        ("equal", "inner", False, "In(k, ["),
        ("equal", "left", False, "In(k, ["),
        ("equal", "anti", False, "In(k, ["),
        ("equal", "right", True, "In(k, ["),
        ("equal", "right", False, None),
        ("equal", "anti", True, None),
        ("equal", "full", False, None),
        ("null safe", "semi", True, "In(k, ["),
        ("text", "inner", True, "In(s, ["),
        ("range", "inner", False, "GreaterThanOrEqual(d,"),
        ("range from a start", "inner", False, "GreaterThanOrEqual(d,"),
        ("range from a start, or all", "inner", False, None),
        ("range with own rows", "semi", True, "LessThan(k,100)"),
        ("floats", "inner", False, None),
    ],
)
def test_files_are_asked_for_some_rows(
    call: Call, tables: Path, tmp_path: Path, name: str, kind: str, swapped: bool, pushed: str | None
) -> None:
    document = analyze(call, QUERY.format(tables, "few"))
    own, other = scans(document["root"])
    memory = handed_on(call, document, own, tmp_path / "x", 5000)
    big = {field: column for column, field in other["columns"]}
    plan = joined(kind, memory, other, conditions(big)[name], swapped)
    shown = [100 if not swapped else big["k"]]
    sink = {"kind": "explain", "columns": [[c, f"c{c}"] for c in shown]}
    text = call("run", query=document["query"], plan=plan, view="v", run=0, output="e", sink=sink)["text"]
    _, _, physical = text.partition("== Physical Plan ==")
    assert ("In(" in physical or "GreaterThanOrEqual(d," in physical) == (pushed is not None)
    assert pushed is None or pushed in physical
    call("release", query=document["query"])


def meeting(document: Document, few: Document, names: tuple[str, str]) -> tuple[Document, list[int]]:
    """Rows of the other source that meet one of the few rows by one of two conditions, and their columns."""
    other = scans(document["root"])[1]
    big = {field: column for column, field in other["columns"]}
    node, met = other, []
    for number, name in enumerate(names, start=200):
        join = {"op": "join", "kind": "existence", "condition": conditions(big)[name], "exists": number}
        node = {**join, "inputs": [node, few]}
        met.append(col(number))
    return {"op": "filter", "condition": [fn("or", *met)], "inputs": [node]}, [big[n] for n in "kds"]


@pytest.mark.parametrize(
    ("names", "pushed"),
    [
        (("equal", "text"), "Or(In(k, ["),
        (("null safe", "range"), "Or(In(k, ["),
        (("floats", "equal"), None),
    ],
)
def test_rows_that_meet_one_of_several_changes_are_asked_for(
    call: Call, tables: Path, tmp_path: Path, names: tuple[str, str], pushed: str | None
) -> None:
    document = analyze(call, QUERY.format(tables, "few"))
    own = scans(document["root"])[0]
    memory, file = (handed_on(call, document, own, tmp_path / str(n), n) for n in (5000, 0))
    found = [rows(call, document, *meeting(document, few, names)) for few in (memory, file)]
    assert found[0] == found[1]
    assert found[0]
    plan, shown = meeting(document, memory, names)
    sink = {"kind": "explain", "columns": [[c, f"c{c}"] for c in shown]}
    text = call("run", query=document["query"], plan=plan, view="v", run=0, output="e", sink=sink)["text"]
    _, _, physical = text.partition("== Physical Plan ==")
    assert ("PushedFilters: [Or(" in physical) == (pushed is not None)
    assert pushed is None or pushed in physical
    call("release", query=document["query"])


@pytest.mark.parametrize(("name", "most"), [("equal", 100), ("range with key", 100_000)])
def test_rows_that_pick_are_found_first(
    call: Call, jobs: Callable[..., int], tables: Path, tmp_path: Path, name: str, most: int
) -> None:
    """The rows of a join pick those of the next table, if they are few indeed; with more, the plan stays."""
    document = analyze(
        call, f"SELECT q.*, c.k, c.d, c.s FROM ({QUERY.format(tables, 'few')}) q, parquet.`{tables}/large` c"
    )
    own, other, third = scans(document["root"])
    few = handed_on(call, document, own, tmp_path / "x", 5000)
    big, far = ({field: column for column, field in scan["columns"]} for scan in (other, third))
    first = joined("inner", few, other, conditions(big)[name], swapped=False)
    met = rows(call, document, first, [100, big["s"]])
    assert (most // 20) < len(met) < most
    assert sum(f.stat().st_size for f in (tables / "large").glob("*.parquet")) > 1 << 20
    found, counted = [], []
    for flag in (True, False):
        join = joined("inner", first, third, [fn("=", col(big["k"]), col(far["k"]))], swapped=False)
        plan = {**join, "broadcast": "left", "few": flag}
        shown = [100, big["s"], far["d"]]
        counted.append(jobs(lambda plan=plan, shown=shown: found.append(rows(call, document, plan, shown))))
    assert found[0] == found[1]
    assert found[0]
    assert counted[0] - counted[1] == (0 if name == "equal" else 1), (
        "the job that finds them, and no broadcast after it"
    )
    call("release", query=document["query"])


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("k IN (1, 2, 3, 4, 5)", False),
        ("s = 's1' AND (k IN (1, 2, 3, 4) OR k IS NULL)", False),
        ("k IN (1, 2, 3)", True),
        ("k BETWEEN 1 AND 5", True),
    ],
)
def test_dictionaries_are_not_asked_for_many_keys(
    spark: SparkSession, tables: Path, condition: str, asked: bool
) -> None:
    """As a session that carries steps out plans it."""
    jvm, name = spark._jvm, "parquet.filter.dictionary.enabled"
    session = spark.newSession()
    jvm.org.apache.spark.sql.tidemill.physical.Strategies.enable(session._jsparkSession)  # type: ignore[union-attr]
    found = session.read.parquet(f"{tables}/big").where(condition)
    assert found.count() == spark.read.parquet(f"{tables}/big").where(condition).count()
    scan = found._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    assert scan.relation().options().contains(name) != asked
