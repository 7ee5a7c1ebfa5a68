"""Names of states: a hash of what a relation is, independent of handles and ids (design.md 9a.5).

The canonical text of a relation names columns by (source id, field) or by the text of what computes them, and
expressions by Catalyst's canonical text. Two analyses of one query, in two processes, give the same name.
"""

from __future__ import annotations

import hashlib

from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Aggregate, Join, Limit, Opaque, Project, Scan, Tree, Union
from tidemill.plan.query import Query
from tidemill.plan.text import Printer, name_columns

CANON_VERSION = 1


def state_name(query: Query, tree: Tree, form: str, settings: str = "") -> str:
    """The name of a state that keeps a form of a relation.

    Args:
        query: what the handles of the tree mean.
        tree: the relation.
        form: name of the form.
        settings: captured settings that change what expressions mean.
    """
    text, _ = _canon(query, tree)
    functions = sorted({f for e in query.expressions.values() for f in e.functions})
    whole = "\n".join((str(CANON_VERSION), form, settings, *functions, text))
    return "s" + hashlib.sha256(whole.encode()).hexdigest()[:16]


def column_names(query: Query, tree: Tree) -> dict[int, str]:
    """A name for each column of a relation that does not depend on its id: equal names mean equal values."""
    return _canon(query, tree)[1]


def _canon(query: Query, tree: Tree) -> tuple[str, dict[int, str]]:
    """Text of a tree, and a name for each of its columns."""
    below = [_canon(query, i) for i in tree.inputs]
    names: dict[int, str] = {}
    for _, inner in below:
        names.update(inner)

    def show(expr: Expr) -> str:
        return Printer(query, lambda c: names.get(c, f"?{c}")).expr(expr)

    def short(text: str) -> str:
        return "c" + hashlib.sha256(text.encode()).hexdigest()[:12]

    inputs = "(" + ", ".join(t for t, _ in below) + ")"
    match tree.op:
        case Scan(source, columns, _):
            own = {c: f"{query.sources[source].id}.{f}" for c, f in columns}
            return f"scan {query.sources[source].id} [{', '.join(sorted(own.values()))}]", own
        case Project(columns):
            shown = {c: names[e.id] if isinstance(e, Col) else short(show(e)) for c, e in columns}
            texts = sorted(names[e.id] if isinstance(e, Col) else show(e) for _, e in columns)
            return f"project [{', '.join(texts)}] {inputs}", shown
        case Aggregate(keys, calls):
            text = (
                f"aggregate [{', '.join(show(e) for _, e in keys)}] [{', '.join(show(e) for _, e in calls)}] {inputs}"
            )
            return text, {c: short(text + show(e)) for c, e in (*keys, *calls)}
        case Union(columns, branches):
            text = f"union {[[names[c] for c in b] for b in branches]} {inputs}"
            return text, {c: short(f"{text}{i}") for i, c in enumerate(columns)}
        case Join(kind, condition, exists):
            text = f"join {kind} [{', '.join(sorted(show(e) for e in condition))}] {inputs}"
            return text, names if exists is None else {**names, exists: short(text)}
        case Limit(limit, offset, order):
            keys_text = [(show(k.expr), k.ascending, k.nulls_first) for k in order]
            return f"limit {show(limit)} {show(offset) if offset else ''} {keys_text} {inputs}", names
        case Opaque(name, node, _, columns, _):
            text = f"opaque {name} {_node_text(query, node, names)} {inputs}"
            return text, {**names, **{c: names.get(c, short(f"{text}{i}")) for i, c in enumerate(columns)}}
        case op:
            return f"{Printer(query, lambda c: names.get(c, f'?{c}')).op(op)} {inputs}", names


def _node_text(query: Query, node: int, names: dict[int, str]) -> str:
    texts = query.document.get("nodes", {})
    text = texts.get(str(node), "") if isinstance(texts, dict) else ""
    return name_columns(text, lambda c: names.get(c, f"?{c}"))
