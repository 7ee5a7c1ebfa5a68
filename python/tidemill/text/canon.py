"""Names of states: a hash of the relation's definition, independent of handles and ids.

The canonical text of a relation names columns by (source id, field) or by the text of the expression that computes
them, and expressions by Catalyst's canonical text. Two analyses of one query in two processes give the same name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import assert_never

from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Opaque,
    Partial,
    Project,
    RowWise,
    Scan,
    Sort,
    Union,
    Window,
)
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree
from tidemill.text.printer import Printer, name_columns

CANON_VERSION = 1


def state_name(query: Query, tree: Tree, form: str, settings: str = "") -> str:
    """The name of a state that keeps a form of a relation.

    Args:
        query: gives the handles of the tree their meaning.
        tree: the relation.
        form: name of the form.
        settings: captured settings that change the meaning of expressions.
    """
    text, _ = _canon(query, tree)
    return "s" + _hash(query, form, settings, text)


def parts_identity(query: Query, tree: Tree, partial: Partial, settings: str = "") -> tuple[str, tuple[str, ...]]:
    """The identity of an aggregate's rows and keys, and that of each of its columns (keys, row count, parts).

    The first is the same for all aggregates over the same rows by the same keys, whatever they compute: a state with
    all columns of another can be read in its place.
    """
    (below,) = tree.inputs
    names = column_names(query, below)
    printer = Printer(query, lambda c: names.get(c, f"?{c}"))
    keys = [f"key {printer.expr(e)}" for _, e in partial.keys]
    calls = zip(partial.calls, partial.parts, strict=True)
    parts = [f"{printer.expr(e)} part {i}" for (_, e), columns in calls for i in range(len(columns))]
    text = "\n".join((*sorted(keys), _rows_text(query, below)))
    return "g" + _hash(query, "parts", settings, text), (*keys, "rows", *parts)


def _hash(query: Query, form: str, settings: str, text: str) -> str:
    functions = sorted({f for e in query.expressions.values() for f in e.functions})
    whole = "\n".join((str(CANON_VERSION), form, settings, *functions, text))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _rows_text(query: Query, tree: Tree) -> str:
    """The text that determines a relation's rows and their multiplicity, but not which columns it shows."""
    match tree.op:
        case Scan(source, _, _):
            return f"scan {query.sources[source].id}"
        case Project():
            return _rows_text(query, tree.inputs[0])
        case Filter(condition):
            names = column_names(query, tree.inputs[0])
            printer = Printer(query, lambda c: names.get(c, f"?{c}"))
            shown = sorted(printer.expr(e) for e in condition)
            return f"filter [{', '.join(shown)}] ({_rows_text(query, tree.inputs[0])})"
        case Join(kind, condition, exists) if exists is None:
            names = _side_by_side([column_names(query, i) for i in tree.inputs])
            printer = Printer(query, lambda c: names.get(c, f"?{c}"))
            shown = sorted(printer.expr(e) for e in condition)
            return f"join {kind} [{', '.join(shown)}] ({', '.join(_rows_text(query, i) for i in tree.inputs)})"
        case Join() | Aggregate() | Union() | Sort() | Limit() | RowWise() | Window() | Opaque():
            return _canon(query, tree)[0]
        case _:
            assert_never(tree.op)


def column_names(query: Query, tree: Tree) -> dict[int, str]:
    """A name for each column of a relation, independent of its id: equal names mean equal values."""
    return _canon(query, tree)[1]


def _canon(query: Query, tree: Tree) -> tuple[str, dict[int, str]]:
    """The canonical text of a tree, and a name for each of its columns."""
    below = [_canon(query, i) for i in tree.inputs]
    names = _side_by_side([inner for _, inner in below])

    def show(expr: Expr) -> str:
        return Printer(query, lambda c: names.get(c, f"?{c}")).expr(expr)

    inputs = "(" + ", ".join(t for t, _ in below) + ")"
    match tree.op:
        case Scan(source, columns, _):
            own = {c: f"{query.sources[source].id}.{f}" for c, f in columns}
            return f"scan {query.sources[source].id} [{', '.join(sorted(own.values()))}]", own
        case Project(columns):
            shown = {c: names[e.id] if isinstance(e, Col) else _short(show(e)) for c, e in columns}
            texts = sorted(names[e.id] if isinstance(e, Col) else show(e) for _, e in columns)
            return f"project [{', '.join(texts)}] {inputs}", shown
        case Aggregate(keys, calls):
            text = (
                f"aggregate [{', '.join(show(e) for _, e in keys)}] [{', '.join(show(e) for _, e in calls)}] {inputs}"
            )
            return text, {c: _short(text + show(e)) for c, e in (*keys, *calls)}
        case Union(columns, branches):
            text = f"union {[[names[c] for c in b] for b in branches]} {inputs}"
            return text, {c: _short(f"{text}{i}") for i, c in enumerate(columns)}
        case Join(kind, condition, exists):
            text = f"join {kind} [{', '.join(sorted(show(e) for e in condition))}] {inputs}"
            return text, names if exists is None else {**names, exists: _short(text)}
        case Limit(limit, offset, order):
            keys_text = [(show(k.expr), k.ascending, k.nulls_first) for k in order]
            return f"limit {show(limit)} {show(offset) if offset else ''} {keys_text} {inputs}", names
        case Opaque(name, _, _, columns, _, how) | RowWise(name, _, columns, how):
            return _named(f"{name} {name_columns(how, lambda c: names.get(c, f'?{c}'))} {inputs}", columns, names)
        case Window(_, columns, partition, _, how):
            by = ", ".join(show(e) for e in partition)
            how = name_columns(how, lambda c: names.get(c, f"?{c}"))
            return _named(f"window [{by}] {how} {inputs}", columns, names)
        case Filter() | Sort() as op:
            return f"{Printer(query, lambda c: names.get(c, f'?{c}')).op(op)} {inputs}", names
        case _:
            assert_never(tree.op)


def _side_by_side(inputs: Sequence[Mapping[int, str]]) -> dict[int, str]:
    """Names of the columns of an operator's inputs.

    With several inputs, the names say which input a column is from: both sides of a self-join have the same columns,
    and columns that a query does not use must not affect the names of the others.
    """
    if len(inputs) == 1:
        return dict(inputs[0])
    return {c: f"{i}:{name}" for i, names in enumerate(inputs) for c, name in names.items()}


def _named(text: str, columns: Sequence[int], below: Mapping[int, str]) -> tuple[str, dict[int, str]]:
    """Names an operator's new columns by its text and their place; columns that it passes on keep their names.

    Columns that it does not pass on make it another relation, with the same new columns.
    """
    fresh = [c for c in columns if c not in below]
    names = {**below, **{c: _short(f"{text}{i}") for i, c in enumerate(fresh)}}
    if below.keys() <= set(columns):
        return text, names
    return f"{text} of [{', '.join(sorted(below[c] for c in columns if c in below))}]", names


def _short(text: str) -> str:
    return "c" + hashlib.sha256(text.encode()).hexdigest()[:12]
