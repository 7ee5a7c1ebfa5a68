"""Applies the signed delta of a view to its Parquet result, at the cost of the rows that it names.

Rows that arrive go into a new file. Rows that leave are looked for in the files whose bounds do not rule them out
(`leaving`); the files that hold some are copied without them, page by page, and rows that the delta does not name are
neither compared nor encoded again; a Delta result has them marked instead (`mark`). A small result is rewritten whole,
since that is one job. So are the touched files if very many rows leave. Runs merge small files on the way, so that
these do not pile up (`crowded`). In a partitioned result, all this holds for each partition that the delta touches; the
others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from tidemill.errors import TidemillError
from tidemill.plan.expr import ONE, ZERO, Col, Expr, fn
from tidemill.plan.grouping import identity, is_plain
from tidemill.runtime.content import leaving, mark
from tidemill.runtime.content.jobs import SparkJobs, Written
from tidemill.runtime.content.leaving import Found, Left, ResultColumn, Search, may_hold, same_values
from tidemill.runtime.content.row_expressions import Ids, is_negative, is_positive, observed_sum, partition_text
from tidemill.runtime.storage.files import child
from tidemill.runtime.view.record import File, sizes_of
from tidemill.search.contract.stored import SMALL_RESULT_BYTES, TARGET_FILE_BYTES, crowded
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

MEBIBYTE = 1 << 20
# Rewriting so many bytes keeps a core busy for half a second: with more, a second task and a second file pay.
TASK_BYTES = 4 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Delta:
    """The staged signed delta of a run: files, net inserts and deletes, and the name of the column of signed counts.

    `left`: what is known of the values in the rows that leave. `found`: their places; None if these are not known.
    """

    files: tuple[File, ...]
    inserts: int
    deletes: int
    count: str
    left: tuple[Left, ...] = ()
    found: Found | None = None

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
    vectors: Callable[[], str] | None = None,
) -> Applied:
    """Applies `delta` to the `live` files. Writes the changed files below the new directory `target`.

    `keys`: names of columns that are a key of the view before and after, or None for a bag. `partitions`: names of the
    columns that partition the result. `vectors` gives the path of a new file of deletion vectors, if rows that leave
    are to be marked in these; None: they are cut out of files.

    Raises TIDEMILL_PLANNER_FAILED if the delta removes a row that the result does not have: the plan was wrong, and
    nothing is kept.
    """
    live = tuple(live)
    if not (delta.inserts or delta.deletes):
        return Applied(live, (), ())
    task = _Task(execution, columns, leaving.usable_keys(columns, keys), delta, target, partitions, vectors)
    searched, crowd = _candidates(task, live)
    if is_small(searched):
        return _rewritten(task, live, searched, crowd)
    found = delta.found or leaving.find(execution, task.search, searched)
    if found is None:
        return _rewritten(task, live, _touched(task, searched), crowd)
    _complain(execution, found.missing)
    return (_cut if vectors is None else _marked)(task, live, found.rows, crowd)


@dataclass(frozen=True, slots=True)
class _Task:
    """The arguments of `apply_delta`, with `keys` only if they can be compared."""

    execution: SparkJobs
    columns: Sequence[ResultColumn]
    keys: tuple[str, ...] | None
    delta: Delta
    target: str
    partitions: Sequence[str]
    vectors: Callable[[], str] | None

    @property
    def search(self) -> Search:
        """The search for the rows that leave."""
        delta, compared = self.delta, leaving.compared_columns(self.columns, self.keys)
        return Search(compared, delta.files, delta.count, delta.deletes, delta.left)

    def write(self, plan: WireNode, out: Sequence[int], files: Sequence[File]) -> Written:
        """Writes the rows of a plan of the delta and these files, with the columns `out`, into files of the result."""
        self.execution.fit((*files, *self.delta.files))
        size = _size(files) + self.delta.bytes
        tasks = 1 if size < 2 * TASK_BYTES else min(size // TASK_BYTES, self.execution.cores)
        return self.execution.write(
            plan,
            child(self.target, "new"),
            [(i, c.name) for i, c in zip(out, self.columns, strict=True)],
            step="apply",
            partitions=partition_ids(out, [c.name for c in self.columns], self.partitions),
            wanted_files=max(tasks, -(-size // TARGET_FILE_BYTES)),
            content=True,
        )


def _rewritten(task: _Task, live: Sequence[File], touched: Sequence[File], crowd: Sequence[File]) -> Applied:
    """Applies the delta by rewriting the files `touched`, which hold all rows that leave, and merging `crowd`."""
    gone = {f["path"] for f in (*touched, *crowd)}
    removed = tuple(f for f in live if f["path"] in gone)
    if not touched:
        _complain(task.execution, task.delta.deletes)
        written = _arrived(task, removed, {})
    elif task.keys is not None:
        written = _replaced_by_key(task, removed)
    else:
        written = _counted(task, removed)
    return Applied(tuple(f for f in live if f["path"] not in gone), written, removed)


def _cut(task: _Task, live: Sequence[File], places: Mapping[str, Sequence[int]], crowd: Sequence[File]) -> Applied:
    """Applies the delta by copying files without the rows that leave, and merging `crowd`."""
    assert places.keys() <= {f["path"] for f in live}, "rows that leave are in files that were listed"
    # A copy of a file would have its marked rows again.
    merged = {f["path"] for f in (*crowd, *(f for f in live if "dv" in f and f["path"] in places))}
    cut = [f for f in live if f["path"] in places and f["path"] not in merged]
    rows = [(f, places[f["path"]]) for f in cut]
    copies = task.execution.cut(rows, child(task.target, "cut"), step="cut rows") if cut else []
    copied: list[File] = []
    for file, copy in zip(cut, copies, strict=True):
        if copy is None:
            merged.add(file["path"])
        elif copy["rows"]:
            copied.append(_in_partition(copy, file, len(task.partitions)))
    written = _arrived(task, [f for f in live if f["path"] in merged], places)
    gone = merged | {f["path"] for f in cut}
    removed = tuple(f for f in live if f["path"] in gone)
    return Applied(tuple(f for f in live if f["path"] not in gone), (*copied, *written), removed)


def _marked(task: _Task, live: Sequence[File], places: Mapping[str, Sequence[int]], crowd: Sequence[File]) -> Applied:
    """Applies the delta by marking rows that leave, and rewriting worn files with `crowd`."""
    assert task.vectors is not None
    marked = mark.marked(task.execution, live, places, task.vectors())
    left = [file for f in live if mark.rows_left(file := marked.get(f["path"], f))]
    worn = mark.worn([f for f in left if f["path"] in marked], TARGET_FILE_BYTES)
    gone = {f["path"] for f in (*crowd, *worn)}
    written = _arrived(task, [f for f in left if f["path"] in gone], {})
    kept = tuple(f for f in left if f["path"] not in gone)
    stay = {f["path"] for f in kept}
    return Applied(kept, written, tuple(f for f in live if f["path"] not in stay))


def _in_partition(copy: File, file: File, depth: int) -> File:
    """Returns a copy's entry with the partition of its original, which lies `depth` folders below the view."""
    if not depth:
        return copy
    return {**copy, "partition": file["partition"], "folder": "/".join(str(file["path"]).split("/")[-1 - depth : -1])}


def _complain(execution: SparkJobs, short: int) -> None:
    if short:
        raise TidemillError(
            "TIDEMILL_PLANNER_FAILED",
            {
                "reason": f"the delta of {execution.view} removes {short} row values that the view does not hold",
                "log": "its plan",
            },
        )


def _size(files: Sequence[File]) -> int:
    return sum(int(f["bytes"]) for f in files)


def is_small(files: Sequence[File]) -> bool:
    """Returns True if rewriting these files is as cheap as a search in them."""
    return _size(files) <= SMALL_RESULT_BYTES


def _crowded(files: Sequence[File]) -> tuple[File, ...]:
    return tuple(files[i] for i in crowded(*sizes_of(files), SMALL_RESULT_BYTES))


def _candidates(task: _Task, live: Sequence[File]) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """Returns the live files that may hold rows that leave, and the files to be merged.

    In a partitioned result, only partitions that the delta touches count. One job over the delta finds them; none runs
    if no file can be of either kind.
    """
    delta = task.delta
    possible = {f["path"] for f in live if delta.deletes and may_hold(f, delta.left)}
    if not task.partitions:
        return tuple(f for f in live if f["path"] in possible), _crowded(live)
    parts: dict[tuple[str | None, ...], list[File]] = {}
    for file in live:
        parts.setdefault(tuple(file["partition"]), []).append(file)
    crowds = {values: _crowded(files) for values, files in parts.items()}
    if not (possible or any(crowds.values())):
        return (), ()
    ids = Ids()
    own = [c for name in task.partitions for c in task.columns if c.name == name]
    read, texts, count, left = ids.fresh(len(own)), ids.fresh(len(own)), ids.one(), ids.one()
    keys = [(t, partition_text(c)) for t, c in zip(texts, read, strict=True)]
    plan = nodes.aggregate(keys, [(left, fn("min", Col(count)))], _signed(delta, read, own, count))
    named = [*((t, f"p{i}") for i, t in enumerate(texts)), (left, "left")]
    task.execution.fit(delta.files)
    rows = task.execution.rows(plan, named, step="find touched partitions")
    found = {tuple(row[:-1]): int(row[-1]) < 0 for row in rows}
    return (
        tuple(f for values, files in parts.items() if found.get(values) for f in files if f["path"] in possible),
        tuple(f for values, files in crowds.items() if values in found for f in files),
    )


def _leaf(files: Sequence[File], ids: Sequence[int], columns: Sequence[ResultColumn]) -> WireNode:
    return nodes.files(files, [(i, c.name, c.type) for i, c in zip(ids, columns, strict=True)])


def _signed(delta: Delta, ids: Sequence[int], columns: Sequence[ResultColumn], count: int) -> WireNode:
    return _leaf(delta.files, (*ids, count), (*columns, ResultColumn(delta.count, "long")))


def _touched(task: _Task, searched: Sequence[File]) -> tuple[File, ...]:
    """Returns the files that hold a row, or a key, that leaves. Runs one job."""
    ids = Ids()
    compared = leaving.compared_columns(task.columns, task.keys)
    left, right = ids.fresh(len(compared)), ids.fresh(len(compared))
    path, count, found = ids.one(), ids.one(), ids.one()
    rows = nodes.files(searched, [(i, c.name, c.type) for i, c in zip(left, compared, strict=True)], path)
    gone = nodes.where([is_negative(count)], _signed(task.delta, right, compared, count))
    held = nodes.join("semi", same_values(left, right, compared), rows, gone)
    plan = nodes.aggregate([(found, Col(path))], [], held)
    task.execution.fit((*searched, *task.delta.files))
    names = {_tail(str(row[0])) for row in task.execution.rows(plan, [(found, "path")], step="find touched files")}
    return tuple(f for f in searched if _tail(str(f["path"])) in names)


def _tail(path: str) -> str:
    """Returns directory and name of a file: all spellings of a path (scheme, escapes) agree in these."""
    return "/".join(unquote(path).rsplit("/", 2)[-2:])


def _arrived(task: _Task, merged: Sequence[File], places: Mapping[str, Sequence[int]]) -> tuple[File, ...]:
    """Writes the rows that arrive, and those of the files `merged` except what leaves at `places`."""
    ids = Ids()
    out, count, new = ids.fresh(len(task.columns)), ids.one(), ids.fresh(len(task.columns))
    branches: list[tuple[Sequence[int], WireNode]] = []
    if task.delta.inserts:
        arriving = nodes.where([is_positive(count)], _signed(task.delta, new, task.columns, count))
        branches.append((new, nodes.replicate(Col(count), arriving)))
    whole = [f for f in merged if f["path"] not in places]
    if whole:
        own = ids.fresh(len(task.columns))
        branches.append((own, _leaf(whole, own, task.columns)))
    for file in merged:
        if file["path"] in places:
            own = ids.fresh(len(task.columns))
            stored = [(i, c.name, c.type) for i, c in zip(own, task.columns, strict=True)]
            branches.append((own, leaving.without(file, places[file["path"]], stored, ids.one())))
    if not branches:
        return ()
    return task.write(nodes.union(out, *branches), out, merged).files


def _replaced_by_key(task: _Task, touched: Sequence[File]) -> tuple[File, ...]:
    """Writes the touched rows whose key is not in the delta, and the delta's new rows."""
    ids = Ids()
    columns, keys, delta = task.columns, task.keys or (), task.delta
    out, old, new, gone = (ids.fresh(len(n)) for n in (columns, columns, columns, keys))
    count = ids.one()
    keyed = [c for c in columns if c.name in keys]
    at = [old[i] for i, c in enumerate(columns) if c.name in keys]
    kept = nodes.join(
        "anti", same_values(at, gone, keyed), _leaf(touched, old, columns), _leaf(delta.files, gone, keyed)
    )
    added = nodes.where([is_positive(count)], _signed(delta, new, columns, count))
    return task.write(nodes.union(out, (old, kept), (new, added)), out, touched).files


def _counted(task: _Task, touched: Sequence[File]) -> tuple[File, ...]:
    """Writes each row value of touched files and delta as often as their counts say together."""
    ids = Ids()
    columns, size = task.columns, _size(touched) + task.delta.bytes
    out, count = ids.fresh(len(columns)), ids.one()
    if size <= SMALL_RESULT_BYTES:
        rows = ids.fresh(len(columns))
        present = (rows, _leaf(touched, rows, columns))
        plan = _checked(_final_counts(ids, out, count, columns, present, task.delta), count)
    else:
        plan = _passing(ids, out, count, task, touched)
    written = task.write(plan, out, touched)
    _complain(task.execution, int((written.observed.get("apply") or {}).get("short") or 0))
    return written.files


def _passing(ids: Ids, out: Sequence[int], count: int, task: _Task, touched: Sequence[File]) -> WireNode:
    """Returns the plan of the touched rows that the delta does not take away, and of the final counts of the others."""
    columns, delta = task.columns, task.delta

    def met(kind: str) -> tuple[list[int], WireNode]:
        rows, gone, n = ids.fresh(len(columns)), ids.fresh(len(columns)), ids.one()
        leaves = nodes.where([is_negative(n)], _signed(delta, gone, columns, n))
        return rows, nodes.join(kind, same_values(rows, gone, columns), _leaf(touched, rows, columns), leaves)

    named, counted = ids.fresh(len(columns)), ids.one()
    final = _checked(_final_counts(ids, named, counted, columns, met("semi"), delta), counted)
    return nodes.union(out, met("anti"), (named, final))


def _final_counts(
    ids: Ids,
    out: Sequence[int],
    count: int,
    columns: Sequence[ResultColumn],
    present: tuple[Sequence[int], WireNode],
    delta: Delta,
) -> WireNode:
    """Returns the plan of each row value of `present` (columns, rows) and delta, repeated by the sum of its counts."""
    old, rows = present
    new, both = ids.fresh(len(columns)), ids.fresh(len(columns))
    one, signed, n = ids.one(), ids.one(), ids.one()
    counted = nodes.project([*nodes.same(old), (one, ONE)], rows)
    rows = nodes.union([*both, n], ([*old, one], counted), ([*new, signed], _signed(delta, new, columns, signed)))
    keys: list[tuple[int, Expr]] = []
    values: list[tuple[int, Expr]] = [(count, fn("sum", Col(n)))]
    for produced, column, c in zip(out, both, columns, strict=True):
        if is_plain(c.type):
            keys.append((produced, Col(column)))
        else:
            keys.append((ids.one(), identity(column, c.type)))
            values.append((produced, fn("first", Col(column))))
    return nodes.replicate(Col(count), nodes.aggregate(keys, values, rows))


def partition_ids(ids: Sequence[int], names: Sequence[str], partitions: Sequence[str]) -> dict[int, str]:
    """Returns the columns of a plan that partition its rows, with their names, in the order of `partitions`."""
    by_name = dict(zip(names, ids, strict=True))
    return {by_name[name]: name for name in partitions}


def _checked(plan: WireNode, count: int) -> WireNode:
    """Returns `replicate` over an observation of counts below zero, which a correct plan never has."""
    below = observed_sum(fn("if", is_negative(count), ONE, ZERO))
    return nodes.over(plan, [nodes.observe("apply", [("short", below)], child) for child in nodes.inputs_of(plan)])
