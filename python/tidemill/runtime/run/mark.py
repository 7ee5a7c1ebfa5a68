"""Applies the signed delta of a view to its result by deletion vectors: no file is rewritten for a few rows of it.

Rows that leave are marked in deletion vectors of the files that hold them. Rows that come are appended. So a run writes
what changed, and reads of the result what it compares: the columns of the key, or all columns of a bag. What this
scatters is brought together on the way: files with many marked rows, and small files (`due`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from tidemill.plan.expr import Cast, Col, Expr, Lit, fn
from tidemill.plan.grouping import identity, is_plain
from tidemill.runtime.run.apply import CROWD, TARGET_FILE_BYTES, Applied, Delta, File, ResultColumn, partition_ids
from tidemill.runtime.run.jobs import SparkJobs
from tidemill.runtime.run.row_expressions import Ids, is_negative, is_positive, partition_text
from tidemill.runtime.storage.stage import Stage
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

LEAST_ROWS = 50_000
"""Rows of a result below which writing it anew costs less than one more job."""
FEW = 10
"""Rows are marked if there are so many times as many in the result."""
MOST_MARKED = 200_000
"""Rows that one run marks at most: their places go through the driver, some 200 bytes each."""
WORN = 8
"""A file is rewritten once one row in so many is marked, when a run marks more."""


def pays(delta: Delta, content: float) -> bool:
    """Returns True if marking rows is cheaper than rewriting files of a result with `content` rows."""
    return content >= LEAST_ROWS and delta.deletes <= min(content / FEW, MOST_MARKED)


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

    Arguments as for `apply_delta`. Of equal rows as many are marked as leave. Returns None, and leaves nothing, if a
    bag does not hold the rows that leave: the delta may be right all the same, if it names a row twice.
    """
    live = tuple(live)
    marked: Mapping[str, File] = {}
    if delta.deletes:
        found = _marked(execution, columns, keys, _searched(execution, columns, partitions, live, delta), delta, stage)
        if found is None:
            return None
        marked = found
    left = tuple(file for f in live if _rows_left(file := marked.get(f["path"], f)))
    old = due(left, marked, partitioned=bool(partitions))
    gone = {f["path"] for f in live} - {f["path"] for f in left} | {f["path"] for f in old}
    added: tuple[File, ...] = ()
    if delta.inserts or old:
        added = _written(execution, columns, old, delta, stage.data(), partitions)
    removed = tuple(f for f in live if f["path"] in gone)
    return Applied(tuple(f for f in left if f["path"] not in gone), added, removed)


def due(files: Sequence[File], marked: Collection[str], *, partitioned: bool = False) -> tuple[File, ...]:
    """Returns the files to be rewritten: those among `marked` that are worn, and small files once they crowd.

    Worn files count up to the size of one full file, at least one of them. Small files are the smallest ones, as many
    as possible with none bigger than the others together; in each partition by itself. So each row that is rewritten
    gets into a file of at least twice the size.

    >>> def sized(*mebibytes): return [{"path": i, "bytes": m << 20} for i, m in enumerate(mebibytes)]
    >>> [f["path"] for f in due(sized(10, 1, 1, 1, 1, 1, 1, 1, 1), ())]
    [1, 2, 3, 4, 5, 6, 7, 8]
    >>> due(sized(10, 1, 1, 1, 1, 1), ())
    ()
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
    return (*chosen, *(f for part in parts.values() for f in _crowd(part)))


def _is_worn(file: File) -> bool:
    return "dv" in file and WORN * int(file["dv"]["rows"]) >= int(file["dv"]["of"])


def _rows_left(file: File) -> bool:
    return "dv" not in file or int(file["dv"]["rows"]) < int(file["dv"]["of"])


def _crowd(files: Sequence[File]) -> Sequence[File]:
    ordered = sorted(files, key=lambda f: int(f["bytes"]))
    sums = list(accumulate(int(f["bytes"]) for f in ordered))
    fits = [n for n, size in enumerate(sums, 1) if n >= CROWD and 2 * int(ordered[n - 1]["bytes"]) <= size]
    return ordered[: max((n for n in fits if sums[n - 1] <= TARGET_FILE_BYTES), default=0)]


def _leaf(files: Sequence[File], ids: Sequence[int], columns: Sequence[ResultColumn], *place: int) -> WireNode:
    return nodes.files(files, [(i, c.name, c.type) for i, c in zip(ids, columns, strict=True)], *place)


def _searched(
    execution: SparkJobs, columns: Sequence[ResultColumn], partitions: Sequence[str], live: Sequence[File], delta: Delta
) -> Sequence[File]:
    """Returns the files that may hold rows that leave. In a partitioned result one job over the delta finds them."""
    if not partitions:
        return live
    ids = Ids()
    own = [c for name in partitions for c in columns if c.name == name]
    read, texts, count = ids.fresh(len(own)), ids.fresh(len(own)), ids.one()
    signed = _leaf(delta.files, (*read, count), (*own, ResultColumn(delta.count, "long")))
    keys = [(t, partition_text(c)) for t, c in zip(texts, read, strict=True)]
    plan = nodes.aggregate(keys, [], nodes.where([is_negative(count)], signed))
    rows = execution.rows(plan, [(t, f"p{i}") for i, t in enumerate(texts)], step="find touched partitions")
    found = {tuple(row) for row in rows}
    return [f for f in live if tuple(f["partition"]) in found]


def _marked(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    keys: Sequence[str] | None,
    files: Sequence[File],
    delta: Delta,
    stage: Stage,
) -> Mapping[str, File] | None:
    """Marks the rows that leave. Returns the files that have a new deletion vector, by path; None as `mark_rows`."""
    types = {c.name: c.type for c in columns}
    keyed = keys is not None and len(keys) > 0 and all(is_plain(types[k]) for k in keys)
    compared = [c for c in columns if not keyed or c.name in (keys or ())]
    ids = Ids()
    left, right, held = ids.fresh(len(compared)), ids.fresh(len(compared)), ids.one()
    path, position, count = ids.one(), ids.one(), ids.one()
    rows = _leaf(files, left, compared, path, position)
    place = fn("struct", Col(path), Col(position))
    same: list[Expr] = [
        fn("<=>", identity(a, c.type), identity(b, c.type)) for a, b, c in zip(left, right, compared, strict=True)
    ]
    if keyed:
        touched = nodes.join("semi", same, rows, _leaf(delta.files, right, compared), "right")
        plan = nodes.project([(held, fn("array", place))], touched)
    else:
        plan = _as_many_as_leave(ids, (rows, place), (right, compared, count), same, held, delta)
    found = execution.mark(
        plan, stage.vectors(), held, files, None if keyed else delta.deletes, step="mark rows that leave"
    )
    if not keyed and found.rows != delta.deletes:
        return None
    return {f["path"]: {**f, "dv": found.vectors[f["path"]]} for f in files if f["path"] in found.vectors}


def _as_many_as_leave(
    ids: Ids,
    left: tuple[WireNode, Expr],
    right: tuple[Sequence[int], Sequence[ResultColumn], int],
    same: Sequence[Expr],
    held: int,
    delta: Delta,
) -> WireNode:
    """Returns the plan of the places of rows that leave a bag: for each row of the delta as many as its count says."""
    rows, place = left
    columns, compared, count = right
    file, number, wanted, places = ids.one(), ids.one(), ids.one(), ids.one()
    signed = _leaf(delta.files, (*columns, count), (*compared, ResultColumn(delta.count, "long")), file, number)
    joined = nodes.join("inner", same, rows, nodes.where([is_negative(count)], signed), "right")
    # A row of the delta goes by its own place: its values may be of types that nothing can group by.
    grouped = nodes.aggregate(
        nodes.same([file, number]),
        [(wanted, fn("min", Col(count))), (places, fn("collect_list", place))],
        joined,
    )
    most = Cast(fn("negative", Col(wanted)), "integer")
    return nodes.project([(held, fn("slice", Col(places), Lit(1, "integer"), most))], grouped)


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
    signed = _leaf(delta.files, (*new, count), (*columns, ResultColumn(delta.count, "long")))
    come = nodes.replicate(Col(count), nodes.where([is_positive(count)], signed))
    plan = nodes.union(out, (new, come), *([(kept, _leaf(old, kept, columns))] if old else []))
    size = delta.bytes + sum(int(f["bytes"]) for f in old)
    return execution.write(
        plan,
        target,
        [(i, c.name) for i, c in zip(out, columns, strict=True)],
        step="apply and merge files" if old else "apply",
        partitions=partition_ids(out, [c.name for c in columns], partitions),
        wanted_files=-(-size // TARGET_FILE_BYTES),
    ).files
