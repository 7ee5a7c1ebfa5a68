"""Calls the JVM's `run`: the Spark jobs of a run's steps go through here."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.bridge.walls import NANOSECONDS
from tidemill.cost.costing import FEW_ROWS, PAGE_ROWS, RESULT_PAGE_ROWS
from tidemill.cost.guesses import FILE_ROW_BYTES
from tidemill.runtime.before import sessions
from tidemill.runtime.content.row_expressions import partition_text
from tidemill.runtime.view.split import StepSpent, by_part
from tidemill.search.contract.stored import FILE_ROWS
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

_LOG = logging.getLogger("tidemill")
PARTITION = "_tidemill_partition_"
"""Prefix of the names of columns that partition the rows of a write; no file has them."""


@dataclass(frozen=True, slots=True)
class Written:
    """The files that one step wrote, the number of rows in them, and its observations (name -> metric -> value)."""

    files: tuple[Mapping[str, Any], ...]
    rows: int
    observed: Mapping[str, Mapping[str, Any]]

    @property
    def bytes(self) -> int:
        return sum(int(f["bytes"]) for f in self.files)


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """Runs wire plans of one analysed query for one run of one view.

    `jvm` is the clone that the refresh works in, `query` the id of the analysed query, `view` the qualified name,
    `run` the number that this run will get, `place` which of its steps this is (descriptions of jobs only). `clock`:
    what the clock shows in all jobs (epoch microseconds); None: the time of each. `spent`: gets what each plan took.
    `settings`: of the session, for the plans to come. Raises `JvmFailure` if Spark fails.
    """

    jvm: Jvm
    query: int
    view: str
    run: int
    clock: int | None = None
    spent: list[StepSpent] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    place: str | None = None

    def fit(self, files: Sequence[Mapping[str, Any]]) -> None:
        """Fits the session to plans that read these files, and no sources."""
        rows = sum(f["rows"] if "rows" in f else f["bytes"] / FILE_ROW_BYTES for f in files)
        self.settings.update(sessions.fit(self.jvm, 0.0, rows, rows))

    def write(
        self,
        plan: WireNode,
        path: str,
        columns: Sequence[tuple[int, str]],
        *,
        step: str,
        wanted_files: int | None = None,
        partitions: Mapping[int, str] | None = None,
        order: str | None = None,
        content: bool = False,
        memory: bool = False,
    ) -> Written:
        """Writes `plan` as Parquet files into the new directory `path`.

        `partitions`: columns of `columns` whose values partition the rows into folders, outermost first, with names for
        the folders. The columns stay in the files too, so that a file by itself has whole rows. The listing then gives
        for each file its `partition` (a list of texts, None for NULL) and its `folder`.

        `order`: the column by which each file is sorted, on small pages.

        `content`: these are files of a result. They have few rows, on small pages, of which later runs can replace
        some. The listing gives for each file its `rows` and its `bounds`: the least and the greatest value of some
        columns.

        `memory`: only later plans of the run read the rows. If they are few, no file is written; the listing names one
        all the same, by which the plans find them.
        """
        sink: dict[str, Any] = {"kind": "parquet", "path": path, "files": wanted_files}
        if partitions:
            first = max(c for c, _ in columns) + 1
            texts = [(first + i, f"{PARTITION}{i}", c) for i, c in enumerate(partitions)]
            kept = nodes.same(c for c, _ in columns)
            plan = nodes.project([*kept, *((i, partition_text(c)) for i, _, c in texts)], plan)
            columns = [*columns, *((i, name) for i, name, _ in texts)]
            sink["partitions"] = [[name, partitions[c]] for _, name, c in texts]
        if order is not None:
            sink |= {"order": order, "page_rows": PAGE_ROWS}
        else:  # a file of rows from several tasks is in no order
            sink |= {"few": FEW_ROWS, "memory": memory}
        if content:
            sink |= {"bounds": True, "page_rows": RESULT_PAGE_ROWS, "file_rows": FILE_ROWS}
        sink["columns"] = [list(c) for c in columns]
        answer = self._run(plan, sink, step)
        return Written(tuple(answer["files"]), int(answer["rows"]), answer.get("observed") or {})

    def rows(self, plan: WireNode, columns: Sequence[tuple[int, str]], *, step: str) -> list[list[Any]]:
        """Collects the rows of `plan`; for small answers only."""
        answer = self._run(plan, {"kind": "rows", "columns": [list(c) for c in columns]}, step)
        return list(answer["rows"])

    def few_rows(
        self, plan: WireNode, columns: Sequence[tuple[int, str]], *, step: str, most: int
    ) -> list[list[Any]] | None:
        """Collects the rows of `plan`; None if there are more than `most`."""
        answer = self._run(plan, {"kind": "rows", "columns": [list(c) for c in columns], "most": most}, step)
        return None if answer["rows"] is None else list(answer["rows"])

    def cut(
        self, rows: Sequence[tuple[Mapping[str, Any], Sequence[int]]], path: str, *, step: str
    ) -> list[Mapping[str, Any] | None]:
        """Copies files without the rows of these numbers into the new directory `path`; pages without such rows are
        copied as bytes.

        Returns for each file its copy, as `write` with `content` lists files; a file of no rows does not exist. None:
        rows cannot be cut out of a file of this layout.
        """
        files = [{"path": f["path"], "rows": list(gone)} for f, gone in rows]
        request = {"path": path, "files": files, "description": self._description(step)}
        with self._noted(step), self.jvm.walls.part("writing"):
            answer: Mapping[str, Any] = self.jvm.invoke("cut", request)
        return list(answer["files"])

    def mark(
        self, rows: Sequence[tuple[Mapping[str, Any], Sequence[int]]], path: str, *, step: str
    ) -> list[Mapping[str, Any]]:
        """Marks the rows of these numbers in deletion vectors, which the new file `path` holds. No Spark job runs.

        Returns the files with their vectors, which have the rows marked before as well.
        """
        files = [{**f, "gone": list(gone)} for f, gone in rows]
        request = {"path": path, "files": files, "description": self._description(step)}
        with self._noted(step), self.jvm.walls.part("writing"):
            answer: Mapping[str, Any] = self.jvm.invoke("mark", request)
        return [{**f, "dv": vector} for (f, _), vector in zip(rows, answer["vectors"], strict=True)]

    @property
    def cores(self) -> int:
        """The number of tasks that run at once."""
        return self.jvm.cores

    def _description(self, step: str) -> str:
        """Returns what Spark's UI and the terminal call the jobs of a step."""
        place = f"{self.place}, " if self.place is not None else ""
        return f"tidemill: {place}{self.view}: {step} (run {self.run})"

    def _run(self, plan: WireNode, sink: Mapping[str, Any], step: str) -> Mapping[str, Any]:
        request = {
            "query": self.query,
            "plan": plan,
            "view": self.view,
            "run": self.run,
            "output": step,
            "description": self._description(step),
            "sink": sink,
            "clock": self.clock,
            "confs": self.settings,
        }
        _LOG.debug("%s", request["description"])
        with self._noted(step) as noted:
            answer: Mapping[str, Any] = self.jvm.invoke("run", request)
            self.jvm.walls.told(answer["wall_ms"])
            noted.rows = answer["rows"] if isinstance(answer["rows"], int) else None
        return answer

    @contextmanager
    def _noted(self, step: str) -> Iterator[_Noted]:
        """Adds what the block takes to `spent`, unless it fails."""
        jvm, before, walls = self.jvm, replace(self.jvm.spent), self.jvm.walls.totals()
        began, noted = time.perf_counter_ns(), _Noted()
        yield noted
        wall_ms = (time.perf_counter_ns() - began) // NANOSECONDS
        cpu, jobs = jvm.spent.cpu_ms - before.cpu_ms, jvm.spent.jobs - before.jobs
        parts, read = by_part(wall_ms, jvm.walls.since(walls)), jvm.spent.rows_read - before.rows_read
        self.spent.append(StepSpent(step, parts, round(cpu), jobs, read, noted.rows))


@dataclass(slots=True)
class _Noted:
    """Figures that a plan tells of itself. `rows`: that it wrote; None: it counts none."""

    rows: int | None = None
