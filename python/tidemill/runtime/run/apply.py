"""Applies the signed delta of a view to its Parquet result: only files that hold changed rows are rewritten.

A keyed view replaces rows by key (`<=>`). Any other view is a bag, and each touched row value gets its final count.
Inserts alone add files. A small result is rewritten whole, since one job on few bytes costs less than a search for the
touched files. Runs merge small files on the way, so that these do not pile up (`crowded`). In a partitioned result, all
this holds for each partition that the delta touches; the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

from tidemill.errors import TidemillError
from tidemill.plan.expr import ONE, ZERO, Col, Expr, fn
from tidemill.plan.grouping import identity, is_plain
from tidemill.runtime.run.jobs import SparkJobs, Written
from tidemill.runtime.run.row_expressions import Ids, is_negative, is_positive, observed_sum, partition_text
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

MEBIBYTE = 1 << 20
# Below this size rewriting everything (one job) is as cheap as finding the touched files first (two jobs): a read of
# 16 MiB of Parquet takes about as long as the floor of one local job, 0.15 s.
SMALL_RESULT_BYTES = 16 * MEBIBYTE
# A run merges small files once there are this many.
CROWD = 8
TARGET_FILE_BYTES = 128 * MEBIBYTE

File = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the view's data files, with its type as text."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Delta:
    """The staged signed delta of a run: files, net inserts and deletes, and the name of the column of signed counts."""

    files: tuple[File, ...]
    inserts: int
    deletes: int
    count: str

    @property
    def bytes(self) -> int:
        return sum(int(f["bytes"]) for f in self.files)


@dataclass(frozen=True, slots=True)
class Applied:
    """The result after a run: files that stay, files written in its data directory, and `removed` files."""

    kept: tuple[File, ...]
    added: tuple[File, ...]
    removed: tuple[File, ...]

    @property
    def live(self) -> tuple[File, ...]:
        return self.kept + self.added


def apply_delta(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    keys: Sequence[str] | None,
    live: Sequence[File],
    delta: Delta,
    target: str,
    partitions: Sequence[str] = (),
) -> Applied:
    """Applies `delta` to the `live` files. Writes the changed files into the new directory `target`.

    `keys`: names of columns that are a key of the view before and after, or None for a bag. `partitions`: names of the
    columns that partition the result.

    Raises TIDEMILL_PLANNER_FAILED if the delta removes a row that the result does not have: the plan was wrong, and
    nothing is kept.
    """
    live = tuple(live)
    if not (delta.inserts or delta.deletes):
        return Applied(live, (), ())
    usable_keys = _usable(keys, columns)
    searched, touched = _candidates(execution, columns, partitions, live, delta)
    if searched and _size(searched) > SMALL_RESULT_BYTES:
        searched = _touched(execution, columns, usable_keys, searched, delta)
    gone = {f["path"] for f in (*searched, *touched)}
    removed = tuple(f for f in live if f["path"] in gone)
    written = _rewrite(execution, columns, usable_keys, removed, delta, target, partitions)
    return Applied(tuple(f for f in live if f["path"] not in gone), written.files, removed)


def _size(files: Sequence[File]) -> int:
    return sum(int(f["bytes"]) for f in files)


def crowded(files: Sequence[File]) -> tuple[File, ...]:
    """Returns the files of a result, or of a partition, that are due to be merged.

    Of a small result these are all files. Of a bigger one they are the smallest files, as many as possible with none
    bigger than the others together. So a row that is rewritten gets into a file of at least twice the size: n bytes
    cost O(n log n) of writing. The files that remain are full, or each is bigger than all smaller ones together.

    >>> sizes = lambda *mebibytes: [{"path": i, "bytes": m * MEBIBYTE} for i, m in enumerate(mebibytes)]
    >>> [f["path"] for f in crowded(sizes(100, 1, 2, 1, 1, 1, 1, 1, 1))]
    [1, 3, 4, 5, 6, 7, 8, 2]
    >>> crowded(sizes(100, 1, 2, 1, 1, 1, 1, 1))
    ()
    >>> crowded(sizes(128, 64, 32, 16, 8, 4, 2, 1))
    ()
    """
    if _size(files) <= SMALL_RESULT_BYTES:
        return tuple(files) if len(files) >= CROWD else ()
    ordered = sorted(files, key=lambda f: int(f["bytes"]))
    sums = list(accumulate(int(f["bytes"]) for f in ordered))
    due = [
        n for n, total in enumerate(sums, 1) if n >= CROWD and 2 * (total - sums[n - 2]) <= total <= TARGET_FILE_BYTES
    ]
    return tuple(ordered[: max(due, default=0)])


def _candidates(
    execution: SparkJobs, columns: Sequence[ResultColumn], partitions: Sequence[str], live: Sequence[File], delta: Delta
) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """Returns the live files that may hold rows that leave, and the files to be merged.

    In a partitioned result, only partitions that the delta touches count. One job over the delta finds them; none runs
    if no file can be of either kind.
    """
    if not partitions:
        return (tuple(live) if delta.deletes else ()), crowded(live)
    parts: dict[tuple[str | None, ...], list[File]] = {}
    for file in live:
        parts.setdefault(tuple(file["partition"]), []).append(file)
    crowds = {values: crowded(files) for values, files in parts.items()}
    if not parts or not (delta.deletes or any(crowds.values())):
        return (), ()
    ids = Ids()
    own = [c for name in partitions for c in columns if c.name == name]
    read, texts, count, left = ids.fresh(len(own)), ids.fresh(len(own)), ids.one(), ids.one()
    keys = [(t, partition_text(c)) for t, c in zip(texts, read, strict=True)]
    plan = nodes.aggregate(keys, [(left, fn("min", Col(count)))], _signed(delta, read, own, count))
    named = [*((t, f"p{i}") for i, t in enumerate(texts)), (left, "left")]
    rows = execution.rows(plan, named, step="find touched partitions")
    found = {tuple(row[:-1]): int(row[-1]) < 0 for row in rows}
    return (
        tuple(f for values, files in parts.items() if found.get(values) for f in files),
        tuple(f for values, files in crowds.items() if values in found for f in files),
    )


def _usable(keys: Sequence[str] | None, columns: Sequence[ResultColumn]) -> tuple[str, ...] | None:
    """Returns the keys if there are any and equal values of each are the same; else None."""
    if not keys:
        return None
    types = {c.name: c.type for c in columns}
    return tuple(keys) if all(is_plain(types[k]) for k in keys) else None


def _leaf(files: Sequence[File], ids: Sequence[int], columns: Sequence[ResultColumn]) -> WireNode:
    return nodes.files(files, [(i, c.name, c.type) for i, c in zip(ids, columns, strict=True)])


def _signed(delta: Delta, ids: Sequence[int], columns: Sequence[ResultColumn], count: int) -> WireNode:
    return _leaf(delta.files, (*ids, count), (*columns, ResultColumn(delta.count, "long")))


def _touched(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    keys: Sequence[str] | None,
    live: Sequence[File],
    delta: Delta,
) -> tuple[File, ...]:
    """Returns the live files that hold a row, or a key, that the delta touches. Runs one job."""
    ids = Ids()
    compared = [c for c in columns if keys is None or c.name in keys]
    left, right = ids.fresh(len(compared)), ids.fresh(len(compared))
    path, count, found = ids.one(), ids.one(), ids.one()
    rows = nodes.files(live, [(i, c.name, c.type) for i, c in zip(left, compared, strict=True)], path)
    # The search is for rows that leave: an insert of a row value that is there already needs no rewriting.
    leaving = nodes.where([is_negative(count)], _signed(delta, right, compared, count))
    held = nodes.join("semi", _same(left, right, compared), rows, leaving)
    plan = nodes.aggregate([(found, Col(path))], [], held)
    names = {_tail(str(row[0])) for row in execution.rows(plan, [(found, "path")], step="find touched files")}
    return tuple(f for f in live if _tail(str(f["path"])) in names)


def _same(left: Sequence[int], right: Sequence[int], columns: Sequence[ResultColumn]) -> list[Expr]:
    return [fn("<=>", identity(a, c.type), identity(b, c.type)) for a, b, c in zip(left, right, columns, strict=True)]


def _tail(path: str) -> str:
    """Returns directory and name of a file: all spellings of a path (scheme, escapes) agree in these."""
    return "/".join(unquote(path).rsplit("/", 2)[-2:])


def _rewrite(
    execution: SparkJobs,
    columns: Sequence[ResultColumn],
    keys: Sequence[str] | None,
    touched: Sequence[File],
    delta: Delta,
    target: str,
    partitions: Sequence[str],
) -> Written:
    ids = Ids()
    out = ids.fresh(len(columns))
    count = ids.one()
    check = False
    if not touched:
        plan = nodes.replicate(Col(count), _signed(delta, out, columns, count))
        # In a bag that is too big to look through, deletes always touch a file; so only inserts arrive here.
        check = delta.deletes > 0
    elif keys is not None:
        plan = _replace_by_key(ids, out, columns, keys, touched, delta)
    else:
        plan = _final_counts(ids, out, count, columns, touched, delta)
        check = True
    if check:
        plan = _checked(plan, count)
    size = _size(touched) + delta.bytes
    written = execution.write(
        plan,
        target,
        [(i, c.name) for i, c in zip(out, columns, strict=True)],
        step="apply",
        partitions=partition_ids(out, [c.name for c in columns], partitions),
        wanted_files=1 if size <= SMALL_RESULT_BYTES else -(-size // TARGET_FILE_BYTES),
    )
    short = (written.observed.get("apply") or {}).get("short") or 0
    if check and int(short):
        raise TidemillError(
            "TIDEMILL_PLANNER_FAILED",
            {
                "reason": f"the delta of {execution.view} removes {short} row values that the view does not hold",
                "log": "its plan",
            },
        )
    return written


def partition_ids(ids: Sequence[int], names: Sequence[str], partitions: Sequence[str]) -> dict[int, str]:
    """Returns the columns of a plan that partition its rows, with their names, in the order of `partitions`."""
    by_name = dict(zip(names, ids, strict=True))
    return {by_name[name]: name for name in partitions}


def _checked(plan: WireNode, count: int) -> WireNode:
    """Returns `replicate` over an observation of counts below zero, which a correct plan never has."""
    below = observed_sum(fn("if", is_negative(count), ONE, ZERO))
    return nodes.over(plan, [nodes.observe("apply", [("short", below)], child) for child in nodes.inputs_of(plan)])


def _replace_by_key(
    ids: Ids,
    out: Sequence[int],
    columns: Sequence[ResultColumn],
    keys: Sequence[str],
    touched: Sequence[File],
    delta: Delta,
) -> WireNode:
    """Returns the plan of the touched rows whose key is not in the delta, and of the delta's new rows."""
    old, new, gone = ids.fresh(len(columns)), ids.fresh(len(columns)), ids.fresh(len(keys))
    count = ids.one()
    keyed = [c for c in columns if c.name in keys]
    at = [old[i] for i, c in enumerate(columns) if c.name in keys]
    kept = nodes.join("anti", _same(at, gone, keyed), _leaf(touched, old, columns), _leaf(delta.files, gone, keyed))
    added = nodes.where([is_positive(count)], _signed(delta, new, columns, count))
    return nodes.union(out, (old, kept), (new, added))


def _final_counts(
    ids: Ids, out: Sequence[int], count: int, columns: Sequence[ResultColumn], touched: Sequence[File], delta: Delta
) -> WireNode:
    """Returns the plan of each row value of touched files and delta, repeated by the sum of its counts."""
    old, new, both = ids.fresh(len(columns)), ids.fresh(len(columns)), ids.fresh(len(columns))
    one, signed, n = ids.one(), ids.one(), ids.one()
    present = nodes.project([*nodes.same(old), (one, ONE)], _leaf(touched, old, columns))
    rows = nodes.union([*both, n], ([*old, one], present), ([*new, signed], _signed(delta, new, columns, signed)))
    keys: list[tuple[int, Expr]] = []
    values: list[tuple[int, Expr]] = [(count, fn("sum", Col(n)))]
    for produced, column, c in zip(out, both, columns, strict=True):
        if is_plain(c.type):
            keys.append((produced, Col(column)))
        else:
            keys.append((ids.one(), identity(column, c.type)))
            values.append((produced, fn("first", Col(column))))
    return nodes.replicate(Col(count), nodes.aggregate(keys, values, rows))
