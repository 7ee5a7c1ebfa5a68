"""Analysing the view's query in a working session, and what is checked there before anything is planned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.definition import Definition
from tidemill.runtime.wire import Type

Document = Mapping[str, Any]

# Spark's conditions that say: a column of a source is not what it was.
_COLUMN_GONE = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND", "MISSING_COLUMNS")
_RETYPED = (
    "DATATYPE_MISMATCH",
    "CANNOT_UP_CAST_DATATYPE",
    "INCOMPATIBLE_TYPES_IN_INLINE_TABLE",
    "NUM_COLUMNS_MISMATCH",
)


@contextmanager
def analysed(jvm: Jvm, query: str, catalog: str, namespace: Sequence[str]) -> Iterator[Document]:
    """The query document of `query`; the JVM keeps the analysed query as long as the block lasts."""
    document: Document = jvm.invoke("analyze", {"sql": query, "catalog": catalog, "namespace": list(namespace)})
    try:
        yield document
    finally:
        jvm.invoke("release", {"query": document["query"]})


@contextmanager
def analysed_again(jvm: Jvm, definition: Definition) -> Iterator[Document]:
    """As `analysed`, for a view that exists: a query that no longer means what CREATE stored is an error that says
    why.

    Raises TIDEMILL_SCHEMA_CHANGED if a used column is gone or the output would have other types,
    TIDEMILL_FUNCTION_MISSING if a session function is not registered here. The document's output is that of CREATE:
    columns that came since are left out.
    """
    try:
        context = analysed(jvm, definition.query, definition.catalog, definition.namespace)
        document = context.__enter__()
    except JvmFailure as failure:
        raise _explained(failure, definition) from failure
    try:
        yield _as_created(document, definition)
    finally:
        context.__exit__(None, None, None)


def _explained(failure: JvmFailure, definition: Definition) -> Exception:
    condition = failure.condition or ""
    if condition.startswith("UNRESOLVED_ROUTINE") and definition.functions:
        missing = next((f for f in definition.functions if f in failure.message), ", ".join(definition.functions))
        return TidemillError("TIDEMILL_FUNCTION_MISSING", {"view": definition.qualified, "function": missing})
    if condition.startswith(_COLUMN_GONE):
        column = failure.message.split("`")[1] if "`" in failure.message else "?"
        return _schema_changed(definition, column, "was dropped or renamed")
    if condition.startswith(_RETYPED):
        return _schema_changed(definition, "of the query", f"has another type now ({failure.message.splitlines()[0]})")
    return failure


def _schema_changed(definition: Definition, column: str, change: str) -> TidemillError:
    sources = ", ".join(str(s["name"]) for s in definition.sources if s["kind"] != "static") or "a source"
    return TidemillError(
        "TIDEMILL_SCHEMA_CHANGED",
        {
            "view": definition.qualified,
            "column": column,
            "source": sources,
            "change": change,
            "remedy": "Restore the column, or drop the view and create it again.",
        },
    )


def _as_created(document: Document, definition: Definition) -> Document:
    names = [name for _, name in document["output"]]
    output = document["output"]
    if len(names) != len(definition.columns):
        # `*` was expanded at CREATE: columns that were added to a source since are not the view's.
        wanted = definition.query_columns
        if any(names.count(n) != 1 for n in wanted):
            gone = next(n for n in wanted if names.count(n) != 1)
            raise _schema_changed(definition, gone, "was dropped or renamed")
        output = [document["output"][names.index(n)] for n in wanted]
    types = column_types(document)
    for (column, name), defined in zip(output, definition.columns, strict=True):
        if not same_type(types[column], defined.type):
            raise _schema_changed(definition, name, f"is now {type_text(types[column])}, was {type_text(defined.type)}")
    return {
        **document,
        "output": [[c, defined.name] for (c, _), defined in zip(output, definition.columns, strict=True)],
    }


def column_types(document: Document) -> dict[int, Type]:
    """Types by column id."""
    return {c["id"]: c["type"] for c in document["columns"]}


def same_type(a: Type, b: Type) -> bool:
    """Whether two types are the same but for nullability and comments within them."""
    return bool(_bare(a) == _bare(b))


def _bare(type_: Type) -> Type:
    if isinstance(type_, str):
        return type_
    match type_.get("type"):
        case "array":
            return ["array", _bare(type_["elementType"])]
        case "map":
            return ["map", _bare(type_["keyType"]), _bare(type_["valueType"])]
        case "struct":
            return ["struct", *([f["name"], _bare(f["type"])] for f in type_["fields"])]
        case _:
            return type_


def type_text(type_: Type) -> str:
    """A type as DESCRIBE shows it."""
    if isinstance(type_, str):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(type_, type_)
    match type_.get("type"):
        case "array":
            return f"array<{type_text(type_['elementType'])}>"
        case "map":
            return f"map<{type_text(type_['keyType'])},{type_text(type_['valueType'])}>"
        case "struct":
            return "struct<" + ",".join(f"{f['name']}:{type_text(f['type'])}" for f in type_["fields"]) + ">"
        case _:
            return str(type_.get("class") or type_.get("type"))


def fingerprint(document: Document) -> str:
    """A name for what the query means as analysed: plain views expanded, columns and types resolved.

    Sizes, row counts, session functions and the identity of tables are left out; those have reasons of their own.
    """
    meaning = {
        "columns": [[c["id"], c["name"], c["type"]] for c in document["columns"]],
        "expressions": [[e["handle"], e["text"], e["type"]] for e in document["expressions"]],
        "sources": [[s["source"], s["kind"], s["name"]] for s in document["sources"]],
        "root": document["root"],
        "output": document["output"],
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:32]


def functions(document: Document) -> dict[str, str]:
    """Fingerprints of the session functions that the query calls, by name."""
    found: dict[str, str] = {}
    for expression in document["expressions"]:
        for text in expression.get("functions") or ():
            _, name, digest = [*text.split(":", 2), "", ""][:3]
            found[name] = digest
    for name in document["findings"].get("session_functions") or ():
        found.setdefault(name, "")
    return found


def check_findings(document: Document, policy: str) -> None:
    """Refuses what a view may not be made of.

    Raises TIDEMILL_TEMPORARY_OBJECT, or TIDEMILL_NON_DETERMINISTIC unless the policy is FULL.
    """
    findings = document["findings"]
    for name in findings.get("temporary") or ():
        raise TidemillError("TIDEMILL_TEMPORARY_OBJECT", {"kind": "view or variable", "name": name})
    if policy != "FULL":
        for text in findings.get("nondeterministic") or ():
            raise TidemillError("TIDEMILL_NON_DETERMINISTIC", {"expression": text})
