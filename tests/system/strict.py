"""Views of a benchmark's queries under STRICT while its tables change: what the suites of TPC-H and TPC-DS share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

CONFS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",  # generated code is compiled for longer than it runs on so few rows
    "spark.sql.adaptive.enabled": "false",  # each of its stages is a job, and there is nothing to adapt to
}
"""For sessions over few rows."""
Bag: TypeAlias = Counter[tuple[object, ...]]
Rounds: TypeAlias = Mapping[str, Callable[[], Sequence[Sequence[str]]]]
"""Per name of a round its groups of statements, asked for when the round begins; those of one group run at once."""


def bag(rows: Iterable[Row]) -> Bag:
    """Rows as they are compared: doubles by nine significant digits, both zeros as one."""
    return Counter(tuple(f"{v + 0.0:.8e}" if isinstance(v, float) else v for v in row) for row in rows)


@dataclass
class Kept:
    """A view of a query, the pack preferred for it, what it held last, how often that changed, and what was wrong."""

    name: str
    query: str
    prefer: str = ""
    held: Bag | None = None
    changed: int = 0
    failure: str | None = None

    def step(self, session: SparkSession, confs: Mapping[str, str], round_: str, answers: dict[str, Bag]) -> None:
        """Made or refreshed, and compared with what the query gives, which is in `answers` once it is known; sets
        `failure` instead of raising."""
        own = session.newSession()
        own.catalog.setCurrentDatabase(session.catalog.currentDatabase())
        for name, value in {**confs, "spark.tidemill.method.prefer": self.prefer}.items():
            own.conf.set(name, value)
        try:
            self._step(own, answers)
        except (AssertionError, PySparkException) as e:
            self.failure = f"{self.name}: {round_}: {str(e)[:1000]}"

    def _step(self, session: SparkSession, answers: dict[str, Bag]) -> None:
        if self.held is None:
            clauses = "SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
            session.sql(f"CREATE INCREMENTAL VIEW {self.name} {clauses} AS {self.query}")
        else:
            row = session.sql(f"REFRESH INCREMENTAL VIEW {self.name}").collect()[0]
            assert (row.kind, row.reason) in {("INCREMENTAL", None), ("NO_DATA", None)}, row
        if self.query not in answers:
            answers[self.query] = bag(session.sql(self.query).collect())
        wanted, now = answers[self.query], bag(session.table(self.name).collect())
        assert now == wanted, f"missing: {[*(wanted - now)][:5]}, unexpected: {[*(now - wanted)][:5]}"
        assert now, "it is empty"
        self.changed += self.held is not None and now != self.held
        self.held = now


def held_through(session: SparkSession, confs: Mapping[str, str], views: Sequence[Kept], rounds: Rounds) -> None:
    """The views equal their queries when they are made and after each round, have rows, and change in two rounds at
    least."""
    with ThreadPoolExecutor(2) as threads:
        for round_, groups in {"created": tuple, **rounds}.items():
            for statements in groups():
                list(threads.map(session.sql, statements))
            answers: dict[str, Bag] = {}
            steps = [partial(v.step, session, confs, round_, answers) for v in views if v.failure is None]
            list(threads.map(lambda step: step(), steps))
    failures = [v.failure for v in views if v.failure is not None]
    assert not failures, f"{len(failures)} of {len(views)}\n" + "\n".join(failures)
    assert {v.name: v.changed for v in views if v.changed < 2} == {}, "these prove nothing: choose other parameters"
