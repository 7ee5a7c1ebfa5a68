"""The views of the simulated month, and what happens to their tables in it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from tests.conftest import confs, location_of, newest_entry
from tests.scheduler.months.almanac import DAY, ZONES, Timed, random_schedule, schedule_text
from tests.scheduler.months.verdict import Kept

START = 1_773_100_800
"""2026-03-10 00:00:00 UTC."""
QUERIES = (
    ("t", "SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k"),
    ("t", "SELECT k, x AS n FROM t WHERE x >= 0"),
    ("tc", "SELECT t.k, count(*) AS n, max(c.x) AS most FROM t JOIN c ON t.k = c.k GROUP BY t.k"),
    ("c", "SELECT k, min(x) AS least, max(x) AS most, count(*) AS n FROM c GROUP BY k"),
    ("tu", "SELECT u.g, sum(t.x) AS s, count(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY u.g"),
    ("u", "SELECT g, count(*) AS n FROM u GROUP BY g"),
    ("cu", "SELECT c.k, c.x AS n, u.g FROM c LEFT JOIN u ON c.k = u.k"),
    ("c", "SELECT DISTINCT k, x % 10 AS n FROM c"),
)
BY_K = QUERIES[0][1]
QUOTIENTS = "SELECT k, sum(100 div n) AS q, count(*) AS n FROM d GROUP BY k"
AGAIN = "SELECT k, count(*) AS n FROM w GROUP BY k"
MIDNIGHT = Timed("AT '24:00'", at=1440)
CHANGE = Timed("ON CHANGE")


def views(choose: random.Random, clocked: int) -> list[Kept]:
    """So many views by the clock alone, and those to which something happens; views after those that they read."""
    found = []
    for n in range(clocked):
        reads, query = QUERIES[n % len(QUERIES)]
        schedule, zone = random_schedule(choose, rare=True), choose.choice([*ZONES])
        found.append(Kept(f"v{n}", query, frozenset(reads), schedule, zone))
    t, d, w = (frozenset(name) for name in "tdw")
    often = (Timed("EVERY 7 HOURS", every=420), MIDNIGHT)
    expect = "EXPECT (t 8 ROWS)"
    found += [
        Kept("quotients", QUOTIENTS, d, often),
        Kept("again", AGAIN, w, often, "Europe/Berlin"),
        Kept("alerts", "SELECT k, x, x AS n FROM t WHERE x >= 0", t, (CHANGE,)),
        Kept("bulk", BY_K, t, (Timed("ON CHANGE OF t AFTER 7 ROWS"),)),
        Kept("early", BY_K, t, (Timed("ON CHANGE", output=False), MIDNIGHT)),
        Kept("half", BY_K, t, (Timed("AT PROGRESS 50 PERCENT", output=False), MIDNIGHT), clauses=expect),
    ]
    for name, below, schedule in (
        ("above0", "v0", random_schedule(choose, rare=True)),
        ("above1", "v4", (CHANGE,)),
        ("above2", "alerts", (CHANGE,)),
        ("above3", "alerts", random_schedule(choose, rare=True)),
    ):
        found.append(Kept(name, f"SELECT count(*) AS c, sum(n) AS n FROM {below}", frozenset(), schedule, above=below))
    return found


@dataclass
class World:
    """The tables of the month, and what is wrong at present. Only `t` and `u` have nothing but new rows.

    `happened`: names of events, in order.
    """

    spark: SparkSession
    kept: Sequence[Kept]
    choose: random.Random
    numbers: count[int] = field(default_factory=lambda: count(100))
    broken: set[str] = field(default_factory=set)
    resting: set[str] = field(default_factory=set)
    happened: list[str] = field(default_factory=list)

    def create(self) -> None:
        feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        self._do(
            f"CREATE TABLE t (k INT, x BIGINT) {feed}",
            "INSERT INTO t VALUES (0, 1), (1, 2), (2, 3)",
            "CREATE TABLE c (k INT, x BIGINT) USING delta",
            "INSERT INTO c VALUES (0, 1), (1, 2), (2, 3), (3, 4)",
            "CREATE TABLE u (k INT, g INT) USING parquet",
            "INSERT INTO u VALUES (0, 0), (1, 1), (2, 0)",
            f"CREATE TABLE d (k INT, n INT) {feed}",
            "INSERT INTO d VALUES (0, 1), (1, 2)",
        )
        self._table_w()
        for view in self.kept:
            with confs(self.spark, {"spark.sql.session.timeZone": view.zone}):
                schedule = f"SCHEDULE ({schedule_text(view.schedule)}) {view.clauses}"
                self.spark.sql(f"CREATE INCREMENTAL VIEW {view.name} {schedule} AS {view.query}")

    def change(self) -> dict[str, int]:
        """Lets data come. Returns of each table how many rows came or went."""
        came = {}
        if self.choose.random() < 0.6:
            came["t"] = self._insert("t", self.choose.randrange(1, 4))
        if self.choose.random() < 0.15:
            came["u"] = self._insert("u", 1)
        if self.choose.random() < 0.3:
            came["d"] = self._insert("d", 1)
        if self.choose.random() < 0.3 and "again" not in self.broken:
            came["w"] = self._insert("w", 1)
        if self.choose.random() < 0.3:
            came["c"] = self._insert("c", 2)
            if self.choose.random() < 0.5:
                key = self.choose.randrange(4)
                self._do(
                    self.choose.choice([f"DELETE FROM c WHERE k = {key}", f"UPDATE c SET x = x + 1 WHERE k = {key}"])
                )
        return came

    def enough(self) -> dict[str, int]:
        """Lets so much data come that no view waits for more. Returns as `change`."""
        return {"t": self._insert("t", 7)}

    def happen(self, at: float) -> dict[str, int]:
        """Carries out what is to happen by that time and has not. Returns as `change`."""
        came: dict[str, int] = {}
        for day, event in sorted(self.events.items()):
            if at >= START + day * DAY and event not in self.happened:
                self.happened.append(event)
                came |= getattr(self, f"_{event.replace(' ', '_')}")() or {}
        return came

    events: ClassVar[Mapping[int, str]] = {
        5: "a zero comes",
        7: "a view is suspended",
        8: "the zero goes",
        11: "the view is resumed",
        13: "a table is dropped",
        16: "the table is made again",
        19: "files of states go",
        20: "a file of a content goes",
    }
    """By day of the month."""

    def _a_zero_comes(self) -> dict[str, int]:
        self._do("INSERT INTO d VALUES (2, 0)")
        self.broken.add("quotients")
        return {"d": 1}

    def _the_zero_goes(self) -> dict[str, int]:
        self._do("DELETE FROM d WHERE n = 0")
        self.broken.discard("quotients")
        return {"d": 1}

    def _a_view_is_suspended(self) -> None:
        self._do("ALTER INCREMENTAL VIEW v1 SUSPEND")
        self.resting.add("v1")

    def _the_view_is_resumed(self) -> None:
        self._do("ALTER INCREMENTAL VIEW v1 RESUME")
        self.resting.discard("v1")

    def _a_table_is_dropped(self) -> None:
        self._do("DROP TABLE w")
        self.broken.add("again")

    def _the_table_is_made_again(self) -> dict[str, int]:
        self._table_w()
        self.broken.discard("again")
        return {"w": 2}

    def _files_of_states_go(self) -> None:
        for view in self.kept:
            for file in self._live(view.name, "_tidemill/state")[:1]:
                file.unlink()

    def _a_file_of_a_content_goes(self) -> None:
        self._live("v3", ".")[0].unlink()

    def _live(self, view: str, folder: str) -> list[Path]:
        """The files of data in a folder of a view that its last run names."""
        root = location_of(self.spark, view)
        last = json.dumps(newest_entry(root))
        found = (root / folder).rglob("*.parquet") if folder != "." else root.glob("*.parquet")
        return sorted(path for path in found if path.name in last)

    def _table_w(self) -> None:
        self._do("CREATE TABLE w (k INT, n INT) USING parquet", "INSERT INTO w VALUES (0, 1), (1, 1)")

    def _insert(self, table: str, rows: int) -> int:
        values = ", ".join(f"({self.choose.randrange(3)}, {next(self.numbers)})" for _ in range(rows))
        self._do(f"INSERT INTO {table} VALUES {values}")
        return rows

    def _do(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement)
