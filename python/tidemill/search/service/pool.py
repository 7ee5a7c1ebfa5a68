"""Runs long searches in worker processes, so that no other statement waits for the interpreter."""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Any

import tidemill
from tidemill import isolated
from tidemill.plan.ops import Aggregate, Join, Window
from tidemill.plan.tree import Tree
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.service.messages import plan_from_json, request_to_json
from tidemill.search.service.planner import plan_run

LONG = 3
"""Smallest size of a long search: the number of joins (outer ones count twice), groupings and windows, times the number
of points planned together. From here on a search takes a tenth of a second on average, and soon seconds."""
SECRETS = ("PYSPARK_GATEWAY_",)
"""Prefixes of environment variables with access to the JVM, which a search does not need."""
_ISOLATED = Path(isolated.__file__).read_text(encoding="utf-8")
_LOG = logging.getLogger("tidemill")


def is_long(request: PlanRequest) -> bool:
    """True if a search is likely to take long, by the size of the query and the number of points."""
    return _size(request.query.root) * (1 + len(request.ahead)) >= LONG


def _size(tree: Tree) -> int:
    match tree.op:
        case Join("left" | "right" | "full"):
            own = 2
        case Join():
            own = len(tree.inputs) - 1
        case Aggregate() | Window():
            own = 1
        case _:
            own = 0
    return own + sum(map(_size, tree.inputs))


class LostWorkerError(Exception):
    """A worker process does not answer properly, or does not answer at all."""


class SearchWorker:
    """A process that searches for one plan at a time.

    Raises:
        LostWorkerError: if it cannot be started.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", _ISOLATED, "tidemill.search.service.worker"]
        try:
            # In a session of its own, so that Ctrl-C at the terminal reaches the statement and not the worker.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=environment(os.environ, sys.path, os.getcwd()),
                start_new_session=True,
            )
        except OSError as e:
            raise LostWorkerError(str(e)) from e

    @property
    def pid(self) -> int:
        return self._process.pid

    def search(self, request: PlanRequest) -> RunPlan | str:
        """The plan that it finds, or an error message. Raises `LostWorkerError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request_to_json(request)) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            found: dict[str, Any] = json.loads(answer)
        except (OSError, ValueError) as e:  # no answer, or an incomplete one
            raise LostWorkerError(str(e)) from e
        return plan_from_json(found["plan"]) if "plan" in found else str(found["failed"])

    def end(self) -> None:
        """Kills the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a request that was not flushed
                    pipe.close()


def environment(variables: Mapping[str, str], path: list[str], working: str) -> dict[str, str]:
    """The environment of a worker process: it finds the same modules as this process, and has no access to the JVM.

    The working directory is not searched for modules, unless PYTHONPATH names it or this package lies there.

    >>> environment({"HOME": "/h", "PYTHONPATH": "/a", "PYSPARK_GATEWAY_SECRET": "s"}, ["", "/w", "/a", "/b"], "/w")
    {'HOME': '/h', 'PYTHONPATH': '/a:/b'}
    """
    found = {name: value for name, value in variables.items() if not name.startswith(SECRETS)}
    trusted = {*variables.get("PYTHONPATH", "").split(os.pathsep), str(Path(tidemill.__file__).parents[1])}
    folders = [folder for folder in path if os.path.isabs(folder) and (folder != working or folder in trusted)]
    return {**found, "PYTHONPATH": os.pathsep.join(folders)}


@dataclass
class SearchPool:
    """The worker processes, started on demand and kept for later searches. Thread-safe."""

    idle: list[SearchWorker] = field(default_factory=list)
    busy: int = 0
    _changed: Condition = field(default_factory=Condition)

    def plan(self, request: PlanRequest) -> RunPlan:
        """The plan of a run, searched in a worker process if that may take long, else here.

        If a worker fails for any reason, the search is repeated here. Raises what `plan_run` does.
        """
        most = request.settings.processes
        if most == 0 or not is_long(request):
            return plan_run(request).bare
        try:
            with self._one_of(most) as searcher:
                found = searcher.search(request)
        except LostWorkerError as lost:
            found = f"lost: {lost}"
        if isinstance(found, RunPlan):
            return found
        plan = plan_run(request).bare
        _LOG.warning("Tidemill: a search in a process of its own failed, here it did not: %s", found)
        return plan

    @contextmanager
    def _one_of(self, most: int) -> Iterator[SearchWorker]:
        """An idle worker process, which is kept afterwards unless it failed."""
        with self._changed:
            self._changed.wait_for(lambda: self.busy < most)
            self.busy += 1
            searcher = self.idle.pop() if self.idle else None
        usable = False
        try:
            searcher = searcher or SearchWorker()
            yield searcher
            usable = True
        finally:
            with self._changed:
                self.busy -= 1
                if usable and searcher is not None:
                    self.idle.append(searcher)
                self._changed.notify_all()  # waiting threads may accept different numbers
            if searcher is not None and not usable:
                searcher.end()

    def end(self) -> None:
        """Ends the idle worker processes."""
        with self._changed:
            idle, self.idle = self.idle, []
        for searcher in idle:
            searcher.end()


SEARCH_POOL = SearchPool()
atexit.register(SEARCH_POOL.end)
