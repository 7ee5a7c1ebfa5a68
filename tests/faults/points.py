"""Faults at every point: each file or catalog operation of a statement, and each of its Spark runs, fails once.

The points are not chosen but counted: a statement is carried out once to see what it does, then again and again, each
time with a fault at the next point. After each fault the view must be right, its history without a gap, what was left
behind gone with the next VACUUM, and the statement must work when it is given again.

Three kinds of fault: the operation fails; it is done but its answer is lost; the process dies before it, so that none
of the cleaning up behind it happens either. Where folders are removed, a fourth: it dies when half of them is gone.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.bridge.jvm import Jvm

CHANGING = {
    "files": {"write_new", "write", "mkdirs", "delete", "rename"},
    "catalog": {"create_table", "alter_table", "rename_table", "drop_table"},
    "delta": {"publish"},
}
KINDS = ("fails", "answer lost", "dies")
HALFWAY = "dies halfway"
SEED = int(os.environ.get("TIDEMILL_SEED", "20260"))
ALL = os.environ.get("TIDEMILL_ALL_POINTS") == "true"
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
_invoke = Jvm.invoke


class _FaultError(Exception):
    """What a test makes happen."""


@dataclass
class _Faults:
    """Counts the points of a statement, or lets one of them fail."""

    at: int | None = None
    kind: str = ""
    seen: list[str] = field(default_factory=list)
    dead: bool = False

    def __call__(self, jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if self.dead:
            raise _FaultError("the process is dead")
        what = (request or {}).get("do", "")
        # marks are renewed each minute by a thread of their own, whichever statement runs
        renewed = threading.current_thread().name == "tidemill-writers"
        if renewed or (method != "run" and what not in CHANGING.get(method, ())):
            return _invoke(jvm, method, request)
        self.seen.append(f"{method} {what}".strip())
        if len(self.seen) - 1 != self.at:
            return _invoke(jvm, method, request)
        if self.kind == "answer lost":
            _invoke(jvm, method, request)
        if self.kind == HALFWAY and what == "delete":
            _remove_half((request or {})["paths"])
        self.dead = self.kind in {"dies", HALFWAY}
        raise _FaultError(f"{self.kind}: {self.seen[-1]}")


def _remove_half(paths: Sequence[str]) -> None:
    """Every other file below the paths goes, in the order of their names."""
    roots = [Path(path.removeprefix("file:")) for path in paths]
    found = [p for root in roots for p in (root, *root.rglob("*")) if p.is_file()]
    for path in sorted(found)[::2]:
        path.unlink()


@contextmanager
def _faults(at: int | None = None, kind: str = "") -> Iterator[_Faults]:
    found = _Faults(at, kind)
    with mock.patch.object(Jvm, "invoke", lambda jvm, method, request=None: found(jvm, method, request)):
        yield found


def endure(
    spark: SparkSession,
    prepare: Callable[[int], None],
    statement: Callable[[int], str],
    after: Callable[[int, str], None],
    least: int,
    kinds: Sequence[str] = KINDS,
    part: int = 1,
) -> list[str]:
    """Every point of a statement in every kind of fault; the points.

    `least`: points that there are at the least. `part`: of all trials, one in so many, drawn by the seed, unless
    TIDEMILL_ALL_POINTS is "true": for variants of a statement that is tried in full, and for what is a run with little
    beside it.
    """
    trial = 0
    prepare(trial)
    with _faults() as counted:
        spark.sql(statement(trial)).collect()
    after(trial, "without a fault")
    assert len(counted.seen) >= least, counted.seen
    trials = [(kind, point, name) for kind in kinds for point, name in enumerate(counted.seen)]
    for kind, point, name in random.Random(SEED).sample(trials, -(-len(trials) // (1 if ALL else part))):
        trial += 1
        where = f"{kind} at point {point}, {name}, of {statement(trial)}"
        prepare(trial)
        with _faults(point, kind) as fault:
            try:
                spark.sql(statement(trial)).collect()
            except (PySparkException, Py4JJavaError):
                pass
            else:
                # Only what follows the commit, and cleaning up, may go wrong without an error.
                assert len(fault.seen) > point, where
        after(trial, where)
    return counted.seen
