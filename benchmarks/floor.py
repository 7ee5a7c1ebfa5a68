"""Views of each kind over tables of any size, changes of one row, and the statements that a person would write instead.

`facts` and `events` have as many rows as asked for, and half of their keys in common. `groups` has a thousandth of
that: a group has a thousand facts. Every fact has its kind in `kinds`; some events have not. All are Delta tables with
change data feed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
KINDS = 97
GROUP_ROWS = 1_000
SIGN = "CASE _change_type WHEN 'insert' THEN 1 WHEN 'delete' THEN -1 END"
BOTH = """SELECT f.k, f.g, f.v, a.name FROM facts f LEFT JOIN kinds a ON f.kind = a.kind
          UNION ALL SELECT e.k, e.g, e.v, b.name FROM events e LEFT JOIN kinds b ON e.kind = b.kind"""
FOREIGN = f"""WITH u AS ({BOTH})
              SELECT x.g, min(y.v) AS least, min(y.name) AS name FROM u x JOIN u y ON x.k = y.k GROUP BY x.g"""


@dataclass(frozen=True)
class Shape:
    """A kind of view: its query, and the statements by hand that bring the table `{table}` up to date after a change.

    `{changes}` stands for the change feed of `facts` since the last time. `deletes`: the change takes a row away.
    """

    query: str
    by_hand: tuple[str, ...]
    deletes: bool = False


def _merge(rows: str, keys: str, sets: str, columns: str) -> str:
    """A MERGE of changed rows; none becomes empty, as no change here does that."""
    same = " AND ".join(f"t.{key} = c.{key}" for key in keys.split(", "))
    return (
        f"MERGE INTO {{table}} t USING ({rows}) c ON {same} WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({', '.join(f'c.{name}' for name in columns.split(', '))})"
    )


SHAPES = {
    "projection": Shape(
        "SELECT k, g, v * 2 AS twice FROM facts WHERE v >= 0",
        ("INSERT INTO {table} SELECT k, g, v * 2 AS twice FROM {changes} WHERE v >= 0",),
    ),
    "aggregate": Shape(
        "SELECT g, sum(v) AS s, count(*) AS n FROM facts GROUP BY g",
        (
            _merge(
                f"SELECT g, sum(v * {SIGN}) AS s, sum({SIGN}) AS n FROM {{changes}} GROUP BY g",
                "g",
                "s = t.s + c.s, n = t.n + c.n",
                "g, s, n",
            ),
        ),
    ),
    "join": Shape(
        "SELECT f.k, f.v, a.name, b.area FROM facts f JOIN kinds a ON f.kind = a.kind JOIN groups b ON f.g = b.g",
        (
            "INSERT INTO {table} SELECT f.k, f.v, a.name, b.area"
            " FROM {changes} f JOIN kinds a ON f.kind = a.kind JOIN groups b ON f.g = b.g",
        ),
    ),
    "aggregate over a join": Shape(
        "SELECT area, sum(v) AS s, count(*) AS n FROM facts f JOIN groups b ON f.g = b.g GROUP BY area",
        (
            _merge(
                f"SELECT area, sum(v * {SIGN}) AS s, sum({SIGN}) AS n"
                " FROM {changes} f JOIN groups b ON f.g = b.g GROUP BY area",
                "area",
                "s = t.s + c.s, n = t.n + c.n",
                "area, s, n",
            ),
        ),
    ),
    "extrema": Shape(
        "SELECT g, min(v) AS least, max(v) AS greatest FROM facts GROUP BY g",
        (
            _merge(
                "SELECT g, min(v) AS least, max(v) AS greatest FROM facts"
                " WHERE g IN (SELECT g FROM {changes}) GROUP BY g",
                "g",
                "least = c.least, greatest = c.greatest",
                "g, least, greatest",
            ),
        ),
        deletes=True,
    ),
    "window": Shape(
        "SELECT k, g, v, row_number() OVER (PARTITION BY g ORDER BY v, k) AS place FROM facts",
        (
            _merge(
                "SELECT k, g, v, row_number() OVER (PARTITION BY g ORDER BY v, k) AS place"
                " FROM facts WHERE g IN (SELECT g FROM {changes})",
                "g, k",
                "place = c.place",
                "k, g, v, place",
            ),
        ),
    ),
    "foreign": Shape(
        FOREIGN,
        (
            _merge(
                f"WITH u AS ({BOTH}), touched AS (SELECT g FROM u WHERE k IN (SELECT k FROM {{changes}}))"
                " SELECT x.g, min(y.v) AS least, min(y.name) AS name"
                " FROM u x JOIN u y ON x.k = y.k WHERE x.g IN (SELECT g FROM touched) GROUP BY x.g",
                "g",
                "least = c.least, name = c.name",
                "g, least, name",
            ),
        ),
    ),
}


class Base:
    """The tables in a session, and what changes them by a row at a time."""

    def __init__(self, spark: SparkSession, rows: int) -> None:
        self._spark, self.rows, self._made = spark, rows, 0
        self._read: dict[str, int] = {}

    @property
    def groups(self) -> int:
        return max(1, self.rows // GROUP_ROWS)

    def load(self) -> None:
        """Makes the tables."""
        for table, first, known in (("facts", 0, KINDS), ("events", self.rows // 2, KINDS + 6)):
            rows = self._of(first, first + self.rows, known)
            self._spark.sql(f"CREATE TABLE {table} USING delta {FEED} AS {rows}")
        kinds = f"SELECT CAST(id AS INT) AS kind, concat('kind', id) AS name FROM range({KINDS})"
        self._spark.sql(f"CREATE TABLE kinds USING delta {FEED} AS {kinds}")
        groups = f"SELECT id AS g, concat('area', id % 50) AS area FROM range({self.groups})"
        self._spark.sql(f"CREATE TABLE groups USING delta {FEED} AS {groups}")

    def _of(self, first: int, last: int, kinds: int = KINDS) -> str:
        return (
            f"SELECT id AS k, id * 7919 % {self.groups} AS g, CAST(id % {kinds} AS INT) AS kind,"
            f" id * 104729 % 1000003 AS v FROM range({first}, {last})"
        )

    def change(self, deletes: bool) -> None:
        """One row comes to `facts`, or the row of the least value of a group goes."""
        self._made += 1
        if deletes:
            group = self._made % self.groups
            row = self._spark.sql(f"SELECT k FROM facts WHERE g = {group} ORDER BY v, k LIMIT 1").collect()[0]
            self._spark.sql(f"DELETE FROM facts WHERE k = {row.k}")
        else:
            new = 2 * self.rows + self._made
            self._spark.sql(f"INSERT INTO facts {self._of(new, new + 1)}")

    def fill_by_hand(self, table: str, shape: Shape) -> None:
        """Makes the table that is kept by hand."""
        self._spark.sql(f"CREATE TABLE {table} USING delta AS {shape.query}")
        self._read[table] = self._version()

    def statements(self, table: str, shape: Shape) -> list[str]:
        """What brings the table up to date; it is to be executed before the next change."""
        first, last = self._read[table] + 1, self._version()
        self._read[table] = last
        changes = f"table_changes('facts', {first}, {last})"
        return [text.format(table=table, changes=changes) for text in shape.by_hand]

    def _version(self) -> int:
        return int(self._spark.sql("DESCRIBE HISTORY facts LIMIT 1").collect()[0].version)
