"""Small tables of any size with one view of each kind, and changes of any share of their rows.

`facts` and `events` have as many rows as asked for. A group has a hundred facts; a fact has an event on average, some
have none. Changed rows are spread over all keys, which is the hard case.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
KINDS = 97
GROUP_ROWS = 100
APART = 7_919
"""A prime: multiples of it, modulo a number of rows that it does not divide, meet every row once."""
VIEWS = {
    "projection": "SELECT k, g, v * 2 AS twice FROM facts WHERE v % 10 < 7",
    "aggregate": "SELECT g, sum(v) AS s, count(*) AS n FROM facts GROUP BY g",
    "aggregate over join": """SELECT area, sum(v) AS s, count(*) AS n
                              FROM facts f JOIN groups b ON f.g = b.g GROUP BY area""",
    "outer join": "SELECT f.k, f.v, e.e_id, e.state FROM facts f LEFT JOIN events e ON f.k = e.k",
    "extrema": "SELECT g, min(v) AS least, max(v) AS greatest FROM facts GROUP BY g",
    "distinct": "SELECT DISTINCT g, kind FROM facts",
    "latest": """SELECT k, e_id, ts, state
                 FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC, e_id) AS place FROM events)
                 WHERE place = 1""",
    "limit": "SELECT k, v FROM facts ORDER BY v DESC, k LIMIT 100",
}
READS_EVENTS = ("outer join", "latest")
READS_FACTS = tuple(name for name in VIEWS if name != "latest")
ONE_ROW = "one row"
SHARES = {ONE_ROW: 0.0, "0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1, "30 %": 0.3}
NEW, MIXED = "new", "mixed"
"""Rows that come alone; and 60 of 100 that come, 20 that go, 20 that are updated (of one row: it is updated)."""
CHANGES = tuple(f"{share}, {kind}" for share in SHARES for kind in (NEW, MIXED))
FEW_CHANGES = ("one row, new", "1 %, mixed", "30 %, mixed")


def share_of(change: str) -> tuple[float, str]:
    """The share of the rows that a change has, 0 for one row; and its kind.

    >>> share_of("30 %, mixed")
    (0.3, 'mixed')
    """
    share, kind = change.split(", ")
    return SHARES[share], kind


@dataclass(frozen=True)
class Small:
    """The tables in a session's current database."""

    rows: int

    @property
    def groups(self) -> int:
        return max(10, self.rows // GROUP_ROWS)

    def load(self, spark: SparkSession) -> None:
        for table, rows in (("facts", self._facts("id")), ("events", self._events("id"))):
            spark.sql(f"CREATE TABLE {table} USING delta {FEED} AS SELECT {rows} FROM range({self.rows})")
        groups = f"SELECT id AS g, concat('area', id % 50) AS area FROM range({self.groups})"
        spark.sql(f"CREATE TABLE groups USING delta {FEED} AS {groups}")

    def _facts(self, row: str) -> str:
        return (
            f"{row} AS k, {row} * {APART} % {self.groups} AS g, CAST({row} % {KINDS} AS INT) AS kind,"
            f" {row} * 104729 % 1000003 AS v"
        )

    def _events(self, row: str) -> str:
        return (
            f"{row} AS e_id, pmod(xxhash64({row}), {self.rows}) AS k, CAST({row} % 11 AS INT) AS state,"
            f" TIMESTAMP'2026-01-01' + make_dt_interval(0, 0, 0, {row}) AS ts"
        )

    def statements(self, view: str, change: str, number: int) -> list[str]:
        """The change with that number to the tables that a view reads; numbers begin with 1, and none comes twice."""
        share, kind = share_of(change)
        count = max(1, round(share * self.rows))
        tables = [("facts", "k", self._facts)] * (view in READS_FACTS)
        tables += [("events", "e_id", self._events)] * (view in READS_EVENTS)
        first = self.rows * (number + 1)
        if kind == NEW:
            return [
                f"INSERT INTO {t} SELECT {rows('id')} FROM range({first}, {first + count})" for t, _, rows in tables
            ]
        new, gone = (round(0.6 * count), round(0.2 * count)) if count > 1 else (0, 0)
        # Old rows are met one after the other along the multiples, from another place each time.
        old = f"(id + {number * 100_003}) * {APART} % {self.rows}"
        found = []
        for table, key, rows in tables:
            update = "v = old.v + 1" if table == "facts" else "state = (old.state + 1) % 11"
            source = (
                f"SELECT {rows('row')}, change FROM (SELECT id, if(id < {new}, id + {first}, {old}) AS row,"
                f" CASE WHEN id < {new} THEN 'new' WHEN id < {new + gone} THEN 'gone' ELSE 'updated' END AS change"
                f" FROM range({count}))"
            )
            columns = "k, g, kind, v" if table == "facts" else "e_id, k, state, ts"
            values = ", ".join(f"now.{name}" for name in columns.split(", "))
            found.append(
                f"MERGE INTO {table} old USING ({source}) now ON old.{key} = now.{key}"
                f" WHEN MATCHED AND now.change = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET {update}"
                f" WHEN NOT MATCHED AND now.change = 'new' THEN INSERT ({columns}) VALUES ({values})"
            )
        return found
