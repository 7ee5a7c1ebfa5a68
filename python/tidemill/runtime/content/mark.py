"""Rows that leave a Delta result, marked in deletion vectors: files stay as they are for a few rows of them.

What marks scatter is brought together on the way: files with many marked rows are written anew (`worn`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from tidemill.runtime.content.jobs import SparkJobs
from tidemill.runtime.content.leaving import File
from tidemill.search.contract.stored import FEW_MARKED

WORN = 8
"""A file is rewritten once one row in so many is marked, when a run marks more."""


def pays(deletes: int, content: float) -> bool:
    """Returns True if few rows leave a result with `content` rows."""
    return 0 < FEW_MARKED * deletes <= content


def marked(
    execution: SparkJobs, live: Sequence[File], places: Mapping[str, Sequence[int]], path: str
) -> dict[str, File]:
    """Marks the rows at `places` (numbers of rows by file). Writes all vectors into the new file `path`.

    Returns the files that have a new vector, by path.
    """
    rows = [(f, places[f["path"]]) for f in live if f["path"] in places]
    return {f["path"]: f for f in execution.mark(rows, path, step="mark rows that leave")} if rows else {}


def worn(files: Sequence[File], most: int) -> tuple[File, ...]:
    """Returns the files to be rewritten: those with many marked rows, up to `most` bytes, at least one of them.

    >>> def file(name, rows): return {"path": name, "bytes": 100, "dv": {"rows": rows, "of": 100}}
    >>> [f["path"] for f in worn([file("a", 20), file("b", 1), file("c", 20), {"path": "d", "bytes": 1}], 150)]
    ['a']
    """
    found = sorted((f for f in files if _is_worn(f)), key=lambda f: int(f["bytes"]))
    sums = accumulate(int(f["bytes"]) for f in found)
    return tuple(f for n, (f, size) in enumerate(zip(found, sums, strict=True)) if n == 0 or size <= most)


def _is_worn(file: File) -> bool:
    return "dv" in file and WORN * int(file["dv"]["rows"]) >= int(file["dv"]["of"])


def rows_left(file: File) -> bool:
    """Returns False if all rows of a file are marked."""
    return "dv" not in file or int(file["dv"]["rows"]) < int(file["dv"]["of"])
