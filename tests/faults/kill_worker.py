"""A driver that is to be killed: python -m tests.faults.kill_worker FOLDER SEED [check | images].

Everything lies below FOLDER; the catalog is forgotten with the process. It takes up the views that it finds there and
checks them, then three threads change the sources and the views until somebody kills it. A line of FOLDER/journal
before and after each statement says how far it came, for whom kills it and for the process after it. With `check` it
ends after the checks; with `images` it puts one copy of the world after another in its place, and checks that.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import difference
from tests.faults.checks import check
from tests.faults.processes import session

SCHEDULE = "SCHEDULE (ON DEMAND)"
BUDGET = 5_000
"""Bytes: a base and a segment or two."""
# What a statement may answer when another one was there first.
LOST_A_RACE = {"TIDEMILL_CONCURRENT_REFRESH", "TIDEMILL_UPSTREAM_FAILED"}


@dataclass
class World:
    """What lies in the folder: a Delta and a Parquet source, both named by their paths, and four views."""

    folder: Path

    @property
    def events(self) -> str:
        return f"delta.`{self.folder}/events`"

    @property
    def clicks(self) -> str:
        return f"parquet.`{self.folder}/clicks`"

    def queries(self, view: str) -> list[str]:
        """What the view may be; where there are two, statements change it between them."""
        joined = f"FROM {self.events} AS e JOIN {self.clicks} AS c ON e.k = c.k"
        return {
            "a": [
                f"SELECT e.k, sum(e.v) AS s, count(*) AS n {joined} GROUP BY e.k",
                f"SELECT k, s + n AS s, n FROM (SELECT e.k, sum(e.v) AS s, count(*) AS n {joined} GROUP BY e.k)",
            ],
            "b": [f"SELECT k, v FROM {self.events} WHERE v % 5 <> 0"],
            "u": ["SELECT n, sum(s) AS s, count(*) AS groups FROM a GROUP BY n"],
            "w": [
                f"SELECT k, max(v) AS most FROM {self.events} GROUP BY k",
                f"SELECT k, min(v) AS least FROM {self.events} GROUP BY k",
            ],
        }[view]

    def clauses(self, view: str) -> str:
        place = f"LOCATION '{self.folder}/{view}'"
        return {
            "a": f"{place} {SCHEDULE}",
            "b": f"USING delta PARTITIONED BY (k) {place} {SCHEDULE}",
            "u": f"{place} {SCHEDULE} STATE BUDGET '{BUDGET}'",
            "w": SCHEDULE,
        }[view]


VIEWS = ("a", "b", "u", "w")
PARTS = ("a", "b", "u", "warehouse", "events", "clicks", "journal")
"""What of the folder is the world."""


def copy_world(folder: Path, to: Path) -> None:
    """Whatever lies at `to` goes."""
    to.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if (to / part).is_dir():
            shutil.rmtree(to / part)
        if (folder / part).is_dir():
            shutil.copytree(folder / part, to / part)
        elif (folder / part).exists():
            shutil.copy2(folder / part, to / part)
        else:
            (to / part).unlink(missing_ok=True)


class Journal:
    """What was begun and what was done, by all processes so far."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal"
        self.past = read(folder)
        self._numbers = count(len(self.past))
        self._lock = threading.Lock()

    @contextmanager
    def statement(self, what: str, **about: Any) -> Iterator[dict[str, Any]]:
        """`about` and what the block adds to it is kept; the second line is written only if the block ends well."""
        number = next(self._numbers)
        self._write({"number": number, "at": "begin", "what": what, **about})
        answer = dict(about)
        yield answer
        self._write({"number": number, "at": "done", "what": what, **answer})

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock, self._path.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def done(self, what: str, view: str) -> list[dict[str, Any]]:
        return [x for x in self.past if x["at"] == "done" and x["what"] == what and x.get("view") == view]

    def unfinished(self, what: str, view: str) -> list[dict[str, Any]]:
        ended = {x["number"] for x in self.past if x["at"] == "done"}
        return [x for x in self.past if x["what"] == what and x.get("view") == view and x["number"] not in ended]


def read(folder: Path) -> list[dict[str, Any]]:
    """The journal's lines; of the last one, a kill may have left a part."""
    path = folder / "journal"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}") and line.startswith("{")]


class Driver:
    """One life."""

    def __init__(self, spark: SparkSession, world: World, seed: int) -> None:
        self.spark, self.world, self.seed = spark, world, seed
        self.journal = Journal(world.folder)
        self.query: dict[str, str] = {}

    def take_up(self) -> None:
        """Attaches what is there, makes what is not, and checks everything."""
        self._sources()
        for view in VIEWS:
            with self.journal.statement("attach", view=view):
                self.query[view] = self._attached(view)
        for view in VIEWS:
            with self.journal.statement("check", view=view):
                self._kept(view)
                check(self.spark, view, view)
                self.spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()
                assert difference(self.spark, view, self.query[view]) == (0, 0), view

    def _sources(self) -> None:
        if not (self.world.folder / "events" / "_delta_log" / f"{0:020d}.json").exists():
            self.spark.sql(f"CREATE TABLE {self.world.events} (k INT, v BIGINT) USING delta")
        if not list((self.world.folder / "clicks").glob("*.parquet")):
            self.spark.sql("SELECT 1 AS k").coalesce(1).write.mode("append").parquet(f"{self.world.folder}/clicks")

    def _attached(self, view: str) -> str:
        """Attaches or makes the view; its query.  What is there is what was acknowledged last, or was under way."""
        queries = self.world.queries(view)
        last = [x["query"] for x in self.journal.done("switch", view)][-1:]
        may_be = {*(last or queries[:1]), *(x["query"] for x in self.journal.unfinished("switch", view))}
        if view == "w":
            may_be = set(queries)
        for query in queries:
            with accepting({"TIDEMILL_LOCATION_MISMATCH"}):
                self.spark.sql(f"CREATE INCREMENTAL VIEW {view} {self.world.clauses(view)} AS {query}")
                assert query in may_be, (view, query, may_be)
                return query
        raise AssertionError(f"what lies at {view} is none of {queries}")

    def _kept(self, view: str) -> None:
        """Nothing that was acknowledged is lost."""
        if view != "w":
            rows = {r.run: r.started_at.timestamp() for r in self.spark.sql(f"SHOW REFRESHES IN {view}").collect()}
            for answer in self.journal.done("refresh", view):
                if answer.get("run") is not None:
                    assert rows.get(answer["run"]) == answer["started_at"], (view, answer)
        if view == "u":
            assert all(
                r.state_bytes <= BUDGET for r in self.spark.sql("SHOW REFRESHES IN u").collect() if r.run is not None
            )
        if view == "b":
            text = self.spark.sql("SHOW CREATE INCREMENTAL VIEW b").collect()[0][0]
            said = int(text.split("number ")[1].split("'")[0]) if "number " in text else -1
            acknowledged = [x["comment"] for x in self.journal.done("comment", "b")]
            assert said >= max(acknowledged, default=-1), (said, acknowledged)

    def load(self) -> None:
        """Until the process is killed, or something goes wrong."""
        failed = threading.Event()

        def forever(actions: list[Callable[[random.Random], None]], chance: random.Random) -> None:
            try:
                while True:
                    chance.choice(actions)(chance)
            except BaseException as failure:
                print(f"{type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
                failed.set()

        first = [self._insert, self._insert, self._click, self._delete, self._update]
        second = [self._refresh("a"), self._refresh("a"), self._refresh("a", "FULL"), self._switch, self._vacuum("a")]
        third = [
            self._refresh("b"),
            self._refresh("b"),
            self._refresh("u", "CASCADE"),
            self._comment,
            self._vacuum("b"),
            self._vacuum("u"),
            self._again,
        ]
        for number, actions in enumerate((first, second, third)):
            chance = random.Random(self.seed * 3 + number)
            threading.Thread(target=forever, args=(actions, chance), daemon=True).start()
        failed.wait()
        os._exit(1)

    def _insert(self, chance: random.Random) -> None:
        rows = ", ".join(f"({chance.randrange(20)}, {chance.randrange(1000)})" for _ in range(chance.randrange(1, 30)))
        with self.journal.statement("insert"):
            self.spark.sql(f"INSERT INTO {self.world.events} VALUES {rows}")

    def _click(self, chance: random.Random) -> None:
        with self.journal.statement("click"):
            clicks = self.spark.range(3).selectExpr(f"CAST({chance.randrange(20)} + id AS INT) AS k")
            clicks.write.mode("append").parquet(f"{self.world.folder}/clicks")

    def _delete(self, chance: random.Random) -> None:
        with self.journal.statement("delete"):
            self.spark.sql(f"DELETE FROM {self.world.events} WHERE k = {chance.randrange(20)} AND v % 3 = 0")

    def _update(self, chance: random.Random) -> None:
        with self.journal.statement("update"):
            self.spark.sql(f"UPDATE {self.world.events} SET v = v + 1 WHERE k = {chance.randrange(20)}")

    def _refresh(self, view: str, clause: str = "") -> Callable[[random.Random], None]:
        def run(_: random.Random) -> None:
            with self.journal.statement("refresh", view=view) as answer, accepting(LOST_A_RACE):
                row = self.spark.sql(f"REFRESH INCREMENTAL VIEW {view} {clause}").collect()[0]
                if row.kind != "NO_DATA":
                    answer |= {"run": row.run, "started_at": row.started_at.timestamp()}

        return run

    def _switch(self, chance: random.Random) -> None:
        query = next(q for q in self.world.queries("a") if q != self.query["a"])
        words = chance.choice(["ALTER INCREMENTAL VIEW a AS", f"CREATE OR REPLACE INCREMENTAL VIEW a {SCHEDULE} AS"])
        with accepting(LOST_A_RACE), self.journal.statement("switch", view="a", query=query):
            self.spark.sql(f"{words} {query}")
            self.query["a"] = query

    def _comment(self, _: random.Random) -> None:
        number = len(read(self.world.folder))
        with self.journal.statement("comment", view="b", comment=number):
            self.spark.sql(f"ALTER INCREMENTAL VIEW b SET COMMENT 'number {number}'")

    def _vacuum(self, view: str) -> Callable[[random.Random], None]:
        def run(_: random.Random) -> None:
            with self.journal.statement("vacuum", view=view):
                self.spark.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS")

        return run

    def _again(self, chance: random.Random) -> None:
        with self.journal.statement("drop", view="w"):
            self.spark.sql("DROP INCREMENTAL VIEW w")
        query = chance.choice(self.world.queries("w"))
        with self.journal.statement("create", view="w"):
            self.spark.sql(f"CREATE INCREMENTAL VIEW w {SCHEDULE} AS {query}")


@contextmanager
def accepting(conditions: Collection[str]) -> Iterator[None]:
    """Lets pass errors of these conditions."""
    try:
        yield
    except PySparkException as failure:
        if failure.getCondition() not in conditions:
            raise


def check_images(folder: Path) -> None:
    """Each with a SparkContext, and so with a catalog, of its own; the JVM stays."""
    for image in sorted((folder / "images").iterdir()):
        copy_world(image, folder)
        spark = session(folder)
        assert spark._jvm is not None
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        print(image.name, flush=True)
        Driver(spark, World(folder), 0).take_up()
        spark.stop()


def main(folder: Path, seed: int, mode: str) -> None:
    if mode == "images":
        check_images(folder)
        return
    spark = session(folder)
    driver = Driver(spark, World(folder), seed)
    driver.take_up()
    print("load", flush=True)
    if mode == "check":
        spark.stop()
    else:
        driver.load()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "load")
