"""Applies the signed delta of a view to its result by deletion vectors: files stay as they are for a few rows of them.

Rows that leave are marked in deletion vectors of the files that hold them. Rows that come are appended. What this
scatters is brought together on the way: files with many marked rows, and small files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from tidemill.plan.expr import Col
from tidemill.plan.grouping import is_plain
from tidemill.runtime.run import leaving
from tidemill.runtime.run.apply import (
    SMALL_RESULT_BYTES,
    TARGET_FILE_BYTES,
    Applied,
    Delta,
    File,
    crowded,
    partition_ids,
)
from tidemill.runtime.run.jobs import SparkJobs
from tidemill.runtime.run.leaving import ResultColumn, may_hold
from tidemill.runtime.run.row_expressions import Ids, is_negative, is_positive, partition_text
from tidemill.runtime.storage.stage import Stage
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

FEW = 10
"""Rows are marked if there are so many times as many in the result."""
WORN = 8
"""A file is rewritten once one row in so many is marked, when a run marks more."""


def pays(delta: Delta, content: float) -> bool:
    """Returns True if few rows leave a result with `content` rows."""
    return 0 < FEW * delta.deletes <= content


def mark_rows(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    keys: Sequence[str] | None,
    live: Sequence[File],
    delta: Delta,
    stage: Stage,
    partitions: Sequence[str] = (),
) -> Applied | None:
    """Applies `delta` to the `live` files: marks rows of them, and writes new files into the stage.

    Arguments as for `apply_delta`. Returns None, and leaves nothing, where that is to be called instead: the files are
    too small for a search, or do not hold the rows that leave, or hold too many that come into question.
    """
    searched = [
        f for f in _in_touched_partitions(execution, columns, partitions, live, delta) if may_hold(f, delta.left)
    ]
    if sum(int(f["bytes"]) for f in searched) <= SMALL_RESULT_BYTES:
        return None
    types = {c.name: c.type for c in columns}
    usable = keys if keys and all(is_plain(types[k]) for k in keys) else None
    name, deletes = delta.count, delta.deletes
    found = leaving.find(execution, columns, usable, searched, delta.files, name, deletes, delta.left)
    if found is None or found.missing:
        return None
    rows = [(f, found.rows[f["path"]]) for f in searched if f["path"] in found.rows]
    marked = {f["path"]: f for f in execution.mark(rows, stage.vectors(), step="mark rows that leave")}
    left = tuple(file for f in live if _rows_left(file := marked.get(f["path"], f)))
    old = due(left, marked, partitioned=bool(partitions))
    kept = {f["path"] for f in left} - {f["path"] for f in old}
    added: tuple[File, ...] = ()
    if delta.inserts or old:
        added = _written(execution, columns, old, delta, stage.data(), partitions)
    removed = tuple(f for f in live if f["path"] not in kept)
    return Applied(tuple(f for f in left if f["path"] in kept), added, removed)


def due(files: Sequence[File], marked: Collection[str], *, partitioned: bool = False) -> tuple[File, ...]:
    """Returns the files to be rewritten: those among `marked` that are worn, and small files once they crowd.

    Worn files count up to the size of one full file, at least one of them.

    >>> def sized(*mebibytes): return [{"path": i, "bytes": m << 20} for i, m in enumerate(mebibytes)]
    >>> [f["path"] for f in due(sized(10, 1, 1, 1, 1, 1, 1, 1, 1), ())]
    [1, 2, 3, 4, 5, 6, 7, 8]
    >>> worn = {"path": "w", "bytes": 1 << 20, "dv": {"rows": 20, "of": 100}}
    >>> [f["path"] for f in due([*sized(10), worn], ["w"])], due([*sized(10), worn], [])
    (['w'], ())
    """
    worn = sorted((f for f in files if f["path"] in marked and _is_worn(f)), key=lambda f: int(f["bytes"]))
    sums = accumulate(int(f["bytes"]) for f in worn)
    chosen = [f for n, (f, size) in enumerate(zip(worn, sums, strict=True)) if n == 0 or size <= TARGET_FILE_BYTES]
    taken = {f["path"] for f in chosen}
    parts: dict[tuple[str | None, ...], list[File]] = {}
    for f in files:
        if f["path"] not in taken:
            parts.setdefault(tuple(f["partition"]) if partitioned else (), []).append(f)
    return (*chosen, *(f for part in parts.values() for f in crowded(part)))


def _is_worn(file: File) -> bool:
    return "dv" in file and WORN * int(file["dv"]["rows"]) >= int(file["dv"]["of"])


def _rows_left(file: File) -> bool:
    return "dv" not in file or int(file["dv"]["rows"]) < int(file["dv"]["of"])


def _signed(delta: Delta, ids: Sequence[int], columns: Sequence[ResultColumn], count: int) -> WireNode:
    stored = [(i, c.name, c.type) for i, c in zip(ids, columns, strict=True)]
    return nodes.files(delta.files, [*stored, (count, delta.count, "long")])


def _in_touched_partitions(
    execution: SparkJobs, columns: Sequence[ResultColumn], partitions: Sequence[str], live: Sequence[File], delta: Delta
) -> Sequence[File]:
    """Returns the files in partitions that rows leave: all without partitions, else one job over the delta asks."""
    if not partitions:
        return live
    ids = Ids()
    own = [c for name in partitions for c in columns if c.name == name]
    read, texts, count = ids.fresh(len(own)), ids.fresh(len(own)), ids.one()
    keys = [(t, partition_text(c)) for t, c in zip(texts, read, strict=True)]
    plan = nodes.aggregate(keys, [], nodes.where([is_negative(count)], _signed(delta, read, own, count)))
    rows = execution.rows(plan, [(t, f"p{i}") for i, t in enumerate(texts)], step="find touched partitions")
    found = {tuple(row) for row in rows}
    return [f for f in live if tuple(f["partition"]) in found]


def _written(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    old: Sequence[File],
    delta: Delta,
    target: str,
    partitions: Sequence[str],
) -> tuple[File, ...]:
    """Writes the rows that come, and the live rows of the files `old`."""
    ids = Ids()
    new, count, kept, out = ids.fresh(len(columns)), ids.one(), ids.fresh(len(columns)), ids.fresh(len(columns))
    come = nodes.replicate(Col(count), nodes.where([is_positive(count)], _signed(delta, new, columns, count)))
    held = nodes.files(old, [(i, c.name, c.type) for i, c in zip(kept, columns, strict=True)])
    size = delta.bytes + sum(int(f["bytes"]) for f in old)
    return execution.write(
        nodes.union(out, (new, come), *([(kept, held)] if old else [])),
        target,
        [(i, c.name) for i, c in zip(out, columns, strict=True)],
        step="apply and merge files" if old else "apply",
        partitions=partition_ids(out, [c.name for c in columns], partitions),
        wanted_files=-(-size // TARGET_FILE_BYTES),
        content=True,
    ).files
