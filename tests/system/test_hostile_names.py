"""Names, paths and texts that someone made up to break out or to break something: they do neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import files_under

# Each is text in literals, comments and properties, a column's name, and the name of a folder.
HOSTILE = {
    "quote": "it's; DROP TABLE t; --",
    "double quote": 'a"b"),("c',
    "glob": "a*b?c[d]{e,f}",
    "newline": "a\nb\r\nc\td",
    "dots": "../../..",
    "backslash": "a\\b\\\\'c\\",
    "backtick": "a`b``c`; SELECT 1",
    "comment": "/* a */ -- b\n # c",
    "variable": "${tide} ${env:HOME} $tide {0} %s",
    "percent": "a%20b%2e%2e%2fc%00+d%",
    "url": "file:///etc/passwd?x=1#y&z@host:1",
    "right to left": "\u202eabc\u202c \u05e9\u05dc\u05d5\u05dd \u200f\ufeff",
    "unicode": "e\u0301\u00e9 \U0001f600 \u1e9e\u0130\u0131 \u2028\u00a0\u0085",
    "control": "a\x01b\x1bc\x7fd",
    "very long": "lang \u00fc" * 200,
    "json": '{"a": [null, "}\\\\"]}',
}
GROUPS = [["quote", "glob"], ["double quote", "newline", "dots"], ["backslash", "backtick", "comment"]]
GROUPS += [["variable", "percent", "url"], ["right to left", "unicode", "json"], ["control", "very long"]]


def folder(text: str) -> str:
    """As a name of one folder: Hadoop takes a colon for the end of a scheme, and file systems allow 255 bytes."""
    return "in " + text.replace("/", "_").replace(":", "_")[:80]


def quoted(text: str) -> str:
    """As a string literal of Spark."""
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("$", "\\u0024")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def named(text: str) -> str:
    """As an identifier; `${` cannot be hidden from Spark's substitution there."""
    return "`" + text.replace("`", "``").replace("$", "S") + "`"


def unquoted(name: str) -> str:
    """The name that an identifier stands for."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def refresh_and_verify(spark: SparkSession, view: str) -> None:
    spark.sql("INSERT INTO t VALUES (1, 5), (2, 7)")
    (run,) = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()
    assert run.kind == "INCREMENTAL"
    assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches


@pytest.fixture
def table(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t (a INT, b INT) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
    return "t"


def test_every_text_is_tried() -> None:
    assert sorted(kind for kinds in GROUPS for kind in kinds) == sorted(HOSTILE)


@pytest.mark.parametrize("kinds", GROUPS, ids=", ".join)
def test_texts_and_paths(spark: SparkSession, table: str, tmp_path: Path, kinds: list[str]) -> None:
    """Several texts at once in one view: column names and comments, literals, properties, folders of its location."""
    texts = [HOSTILE[kind] for kind in kinds]
    whole = " ".join(texts)
    location = tmp_path.joinpath(*map(folder, texts))
    names = [named(text + "2") for text in texts]
    columns = ["a", *names, *(f"lit{n}" for n in range(len(texts)))]
    declared = ", ".join(f"{name} COMMENT {quoted(whole)}" for name in columns)
    properties = ", ".join(f"{quoted('k ' + text)} = {quoted(text)}" for text in texts)
    given = [f"sum(b) AS {named(text)}" for text in texts] + [quoted(text) for text in texts]
    spark.sql(
        f"CREATE INCREMENTAL VIEW v ({declared}) COMMENT {quoted(whole)} LOCATION {quoted(str(location))}"
        f" TBLPROPERTIES ({properties}) SCHEDULE (ON DEMAND) AS SELECT a, {', '.join(given)} FROM t GROUP BY a"
    )
    spark.sql("SET tide=evil")
    refresh_and_verify(spark, "v")
    spark.sql("RESET tide")
    held = spark.table("v").collect()
    assert {tuple(row)[-len(texts) :] for row in held} == {tuple(texts)}
    assert [p.name for p in tmp_path.iterdir()] == [location.relative_to(tmp_path).parts[0]]
    found = spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()
    assert [(row.col_name, row.comment) for row in found] == [(unquoted(name), whole) for name in columns]
    # What plain Spark finds there, by the manifest.
    types = ["INT", *["BIGINT"] * len(texts), *["STRING"] * len(texts)]
    schema = ", ".join(f"{name} {type_}" for name, type_ in zip(columns, types, strict=True))
    spark.sql(f"CREATE TABLE plain ({schema}) USING parquet LOCATION {quoted(str(location))}")
    assert sorted(spark.table("plain").collect()) == sorted(held)
    spark.sql("DROP TABLE plain")
    # Other texts in place of these, and these in amendments.
    spark.sql(f"ALTER INCREMENTAL VIEW v SET COMMENT {quoted(whole[::-1])}")
    spark.sql(f"ALTER INCREMENTAL VIEW v UNSET TBLPROPERTIES ({quoted('k ' + texts[0])})")
    spark.sql(f"ALTER INCREMENTAL VIEW v SET TBLPROPERTIES ({properties})")
    # SHOW CREATE makes the same view again; DROP leaves what it does not own.
    (made,) = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()
    before = files_under(location)
    spark.sql("DROP INCREMENTAL VIEW v")
    assert set(before) - set(files_under(location)) == set()
    spark.sql(made[0])
    (again,) = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()
    assert again[0] == made[0]
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 4


RESERVED = ("_change_type", "_commit_version", "_commit_timestamp", "_n", "_metadata", "value")
"""Of them the first three by Delta's reader of changes."""


@pytest.mark.parametrize("name", RESERVED[:3])
def test_columns_that_deltas_reader_of_changes_has(spark: SparkSession, db: str, name: str) -> None:
    spark.sql(f"CREATE TABLE t (k INT, {name.upper()} BIGINT) USING delta")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, count(*) AS n FROM t GROUP BY k")
    spark.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
    (run,) = spark.sql("REFRESH INCREMENTAL VIEW v").collect()
    assert run.kind == "FULL"
    assert run.reason.startswith("NOT_INCREMENTAL")
    assert spark.table("v").collect() == [(1, 2)]
    with pytest.raises(PySparkException, match=f"{name.upper()} has a name that Delta's reader of changes gives"):
        spark.sql("CREATE INCREMENTAL VIEW w SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT k FROM t")


def test_a_delta_table_gets_such_a_column(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE t (k INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1), (1)")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, count(*) AS n FROM t GROUP BY k")
    spark.sql("ALTER TABLE t ADD COLUMN _commit_version INT")
    for n, reason in ((3, "t: another kind of table"), (4, "NOT_INCREMENTAL")):
        spark.sql("INSERT INTO t VALUES (1, 2)")
        (run,) = spark.sql("REFRESH INCREMENTAL VIEW v").collect()
        assert run.kind == "FULL"
        assert reason in run.reason
        assert spark.table("v").collect() == [(1, n)]


def test_a_delta_view_of_such_columns(spark: SparkSession, table: str) -> None:
    columns = ", ".join(f"sum(b) AS {name}" for name in RESERVED)
    where = "SCHEDULE (ON DEMAND) AS SELECT"
    spark.sql(f"CREATE INCREMENTAL VIEW v USING delta {where} a, {columns} FROM t GROUP BY a")
    spark.sql(f"CREATE INCREMENTAL VIEW above {where} _change_type AS c, count(*) AS n FROM v GROUP BY 1")
    for _ in range(2):
        spark.sql("INSERT INTO t VALUES (1, 5), (2, 5)")
        refresh_and_verify(spark, "v")
        assert spark.sql("REFRESH INCREMENTAL VIEW above").collect()[0].kind == "INCREMENTAL"
        assert spark.sql("VERIFY INCREMENTAL VIEW above").collect()[0].matches


@pytest.mark.parametrize("format_", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_columns_of_sources(spark: SparkSession, db: str, format_: str) -> None:
    """Names that break out, and names that others give to columns of their own."""
    names = [*HOSTILE.values(), *RESERVED] if format_ == "parquet" else [*HOSTILE.values(), "_n", "_metadata", "value"]
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')" if format_ == "delta" else ""
    for table in ("t", "u"):
        columns = ", ".join(f"{named(name)} BIGINT" for name in names)
        spark.sql(f"CREATE TABLE {table} (a INT, b INT, {columns}) USING {format_} {mapped}")
        spark.sql(f"INSERT INTO {table} SELECT id, id, {', '.join(['id % 3'] * len(names))} FROM range(9)")
    first, *others = map(named, names)
    sums = ", ".join(f"sum(t.{name}) AS {name}" for name in others)
    joined = "t LEFT JOIN u ON " + " AND ".join(f"t.{named(name)} = u.{named(name)}" for name in names)
    queries = {
        "groups": f"SELECT {first}, {sums} FROM t GROUP BY {first}",
        "pairs": f"SELECT t.*, u.a AS a2 FROM {joined}",
        "above": "SELECT a, _n, count(*) AS __n FROM pairs GROUP BY a, _n",
        "largest": f"SELECT {', '.join(others)}, max({first}) AS {first} FROM t GROUP BY {', '.join(others)}",
    }
    for view, query in queries.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {view} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for n in range(3):
        spark.sql(f"INSERT INTO t SELECT {n}, {n}, {', '.join([str(n)] * len(names))}")
        if format_ == "delta":
            spark.sql(f"DELETE FROM u WHERE a = {n}")
            spark.sql(f"UPDATE t SET {first} = 7 WHERE a = {n + 3}")
        for view in queries:
            assert spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0].kind == "INCREMENTAL"
            assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches


@pytest.mark.parametrize("name", ["..", "../../escaped", "a.b", "a/b", "a b", "a`b", "a\nb", "\u05e9", "a*", "x\0y"])
def test_names_that_spark_refuses(spark: SparkSession, table: str, db: str, tmp_path: Path, name: str) -> None:
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))  # type: ignore[union-attr]
    before = files_under(warehouse.parent)
    for place in ("", f"LOCATION '{tmp_path / 'v'}'"):
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"CREATE INCREMENTAL VIEW {named(name)} {place} SCHEDULE (ON DEMAND) AS SELECT a FROM t")
        # The second is how Spark fails to print some names in the first.
        assert caught.value.getCondition() in ("INVALID_SCHEMA_OR_RELATION_NAME", "INVALID_ATTRIBUTE_NAME_SYNTAX")
    assert files_under(warehouse.parent) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["a\0b", "y" * 300])
def test_locations_that_cannot_be(spark: SparkSession, table: str, db: str, tmp_path: Path, location: str) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)):  # what Java throws, Spark passes on as it is
        spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{tmp_path}/{location}' SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    assert list(tmp_path.iterdir()) == []
    assert spark.sql("SHOW INCREMENTAL VIEWS").collect() == []


def test_a_database_and_a_source_at_a_hostile_place(spark: SparkSession, db: str, tmp_path: Path) -> None:
    place = tmp_path / "d #%20'z"  # Spark cannot write below a folder whose name has glob characters
    spark.sql(f"CREATE DATABASE hostile LOCATION {quoted(str(place))}")
    try:
        spark.sql("USE hostile")
        spark.sql("CREATE TABLE t (a INT, b INT) USING parquet")
        spark.sql("INSERT INTO t VALUES (1, 2)")
        spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, b FROM t")
        refresh_and_verify(spark, "v")
        spark.sql("DROP INCREMENTAL VIEW v")
        assert [p.name for p in place.iterdir()] == ["t"]
        assert [p.name for p in tmp_path.iterdir()] == [place.name]
    finally:
        spark.sql(f"USE {db}")
        spark.sql("DROP DATABASE hostile CASCADE")


def test_a_variable_in_a_text_is_read_once(spark: SparkSession, table: str) -> None:
    spark.conf.set("tide", "b > 2")
    spark.sql(
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, b, '$\\u007btide}' AS x FROM t WHERE ${tide}"
    )
    spark.conf.set("tide", "false")
    spark.sql("REFRESH INCREMENTAL VIEW v FULL")
    spark.conf.unset("tide")
    assert [tuple(row) for row in spark.table("v").collect()] == [(1, 3, "${tide}")]
