"""Analyses a view's query in a working session, and checks it before anything is planned."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.plan.datatype import DataType
from tidemill.plan.expr import Col, Expr, Lit, fn
from tidemill.plan.query import Query
from tidemill.recent import Recent
from tidemill.runtime.view.definition import Definition
from tidemill.runtime.view.record import RunRecord
from tidemill.search.contract.run_kinds import Policy
from tidemill.wire import nodes
from tidemill.wire.query_document import read_query, read_sources

Document = Mapping[str, Any]

DOCUMENTS = 256
"""Largest number of documents that are kept for runs to come."""
FOLDED = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that a partition column stores as NULL."""
# Spark's conditions for a column of a source that is gone or has changed.
_COLUMN_GONE = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND", "MISSING_COLUMNS")
_RETYPED = (
    "DATATYPE_MISMATCH",
    "CANNOT_UP_CAST_DATATYPE",
    "INCOMPATIBLE_TYPES_IN_INLINE_TABLE",
    "NUM_COLUMNS_MISMATCH",
)

_before: Recent[str, Document] = Recent(DOCUMENTS)
"""The last documents, by the location of the view, that the JVM may find to be right again."""
_read: Recent[tuple[str, str], tuple[Query, str]] = Recent(DOCUMENTS)


def analysed(
    jvm: Jvm, query: str, catalog: str, namespace: Sequence[str], found: Mapping[str, Any] | None = None
) -> AbstractContextManager[Document]:
    """Yields the query document of `query`. The JVM keeps the analysed query as long as the block lasts.

    Errors point into the statement that is executed if the query stands in it.
    `found`: findings of an earlier analysis: `known` and `columns` of `Known` in the bridge.
    """
    return jvm.walls.borders("analysis", _analysed(jvm, query, catalog, namespace, found))


@contextmanager
def _analysed(
    jvm: Jvm, query: str, catalog: str, namespace: Sequence[str], found: Mapping[str, Any] | None
) -> Iterator[Document]:
    document: Document = jvm.invoke(
        "analyze",
        {"sql": in_place(jvm.statement, query), "catalog": catalog, "namespace": list(namespace), **(found or {})},
    )
    try:
        yield document
    finally:
        jvm.invoke("release", {"query": document["query"]})


def in_place(statement: str, query: str) -> str:
    """Returns the query behind as many blanks and line ends as it has characters before it in the statement.

    >>> in_place("CREATE\\nAS SELECT 1;", "SELECT 1")
    '      \\n   SELECT 1'
    """
    return re.sub(r"[^\r\n]", " ", statement[: max(0, statement.rfind(query))]) + query


def analysed_again(
    jvm: Jvm, definition: Definition, head: RunRecord | None = None, *, anew: bool = False
) -> AbstractContextManager[Document]:
    """As `analysed`, for a view that exists. The query must still mean what CREATE stored.

    The document's output is that of CREATE: columns that were added since are left out. `head`: the last run, whose
    positions save listing the sources again. `anew`: no earlier analysis of this process is used again, though Spark
    would find the same under every name.

    Raises TIDEMILL_SCHEMA_CHANGED if a used column is gone or the output would have other types, and
    TIDEMILL_FUNCTION_MISSING if a session function is not registered here.
    """
    return jvm.walls.borders("analysis", _analysed_again(jvm, definition, head, anew))


@contextmanager
def _analysed_again(jvm: Jvm, definition: Definition, head: RunRecord | None, anew: bool) -> Iterator[Document]:
    found: dict[str, Any] = {"known": _paths(definition, head) if head is not None else []}
    before = _before.get(definition.location)
    if not (anew or found["known"]):
        found |= {"again": True, "has": before["name"] if before is not None else None}
    with ExitStack() as stack:
        try:
            document = stack.enter_context(_analysed_with(jvm, definition, found))
            if before is not None and "version" not in document:
                document = {**before, **document}
            elif "name" in document:
                _before.put(definition.location, document)
            found["columns"] = _moved(document, definition)
        except JvmFailure as failure:
            # A column that was added since may make a name ambiguous.
            found["columns"] = _tables(definition)
            if not found["columns"]:
                raise _explained(failure, definition) from failure
        if found["columns"]:
            stack.pop_all().close()
            found["again"] = False
            try:
                document = stack.enter_context(_analysed_with(jvm, definition, found))
            except JvmFailure as failure:
                raise _explained(failure, definition) from failure
        yield partitioned(_as_created(document, definition), definition.create.partitioned_by)


def _analysed_with(jvm: Jvm, definition: Definition, found: Mapping[str, Any]) -> AbstractContextManager[Document]:
    return analysed(jvm, definition.query, definition.catalog, definition.namespace, found)


def _tables(definition: Definition) -> dict[str, list[str]]:
    """Returns the columns that each table of the query had at CREATE: `*` stands for these."""
    tables = (s for s in definition.sources if s["kind"] in ("files", "delta") and s["location"]["table"])
    return {s["name"]: [f[0] for f in s["fields"]] for s in tables}


def _moved(document: Document, definition: Definition) -> dict[str, list[str]]:
    """Returns the part of `_tables` whose tables have other columns now."""
    now = {s["name"]: [f[0] for f in s["fields"]] for s in document["sources"]}
    return {name: columns for name, columns in _tables(definition).items() if now.get(name, columns) != columns}


def _paths(definition: Definition, head: RunRecord) -> list[dict[str, Any]]:
    """Returns the sources that are paths of files, with their last positions."""
    paths = [s for s in definition.sources if s["kind"] == "files" and not s["location"]["table"]]
    positions = [(s, head.position_of(s["name"])) for s in paths]
    return [{"source": dict(s), "position": position} for s, position in positions if position is not None]


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
    wanted = definition.query_columns
    if tuple(names) != tuple(wanted):
        # CREATE expanded `*`: columns that were added to a source since are not the view's, and their order is not.
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


def partitioned(document: Document, columns: Sequence[str]) -> Document:
    """Returns the document of a view that is partitioned by these columns of its output.

    The empty string and Spark's own word for NULL become NULL in these columns, as in every partitioned table of Spark:
    the name of a folder cannot tell them apart.
    """
    known = {c["id"]: c for c in document["columns"]}
    fresh = itertools.count(max(known, default=0) + 1)
    added: list[dict[str, Any]] = []
    output: list[list[Any]] = []
    values: dict[int, Expr] = {}
    no_text = Lit(None, "string")
    for column, name in document["output"]:
        if name in columns and known[column]["type"] == "string":
            read = Col(column)
            added.append({**known[column], "id": next(fresh), "nullable": True})
            column = added[-1]["id"]
            values[column] = fn("if", fn("in", read, *(Lit(text, "string") for text in FOLDED)), no_text, read)
        else:
            values[column] = Col(column)
        output.append([column, name])
    if not added:
        return document
    root = nodes.project(values.items(), document["root"])
    return {**document, "columns": [*document["columns"], *added], "root": root, "output": output}


def column_types(document: Document) -> dict[int, DataType]:
    """Returns the types by column id."""
    return {c["id"]: c["type"] for c in document["columns"]}


def same_type(a: DataType, b: DataType) -> bool:
    """Returns True if two types are equal apart from nullability and comments within them."""
    return bool(_bare(a) == _bare(b))


def _bare(type_: DataType) -> DataType:
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


def type_text(type_: DataType) -> str:
    """Returns a type as DESCRIBE shows it."""
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


def read(document: Document) -> tuple[Query, str]:
    """Returns a document's query, and its fingerprint. The sizes of sources may not be those of the analysis."""
    if "name" not in document:
        return read_query(document), fingerprint(document)
    key = (document["name"], json.dumps(document["output"]))
    known = _read.get(key)
    if known is None:
        known = read_query(document), fingerprint(document)
        _read.put(key, known)
    query, text = known
    sources = read_sources(document)
    return replace(query, number=document["query"], sources=sources, document=document), text


def fingerprint(document: Document) -> str:
    """Returns a hash of the query's meaning as analysed: plain views expanded, columns and types resolved.

    It leaves out sizes, row counts, session functions and the identity of tables, because their changes have reasons of
    their own. It also leaves out the table of column names: the tree names the fields that are read, the output names
    its own columns, and Spark may name the columns in between, with another number at every analysis.
    """
    meaning = {
        "columns": [[c["id"], c["type"]] for c in document["columns"]],
        "expressions": [[e["handle"], e["text"], e["type"]] for e in document["expressions"]],
        "sources": [[s["source"], s["kind"], s["name"]] for s in document["sources"]],
        "root": document["root"],
        "output": document["output"],
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:32]


def functions(document: Document) -> dict[str, str]:
    """Returns the fingerprints of the functions of users that the query calls, by name: the session's, and SQL ones."""
    return session_functions(document) | dict(document["findings"].get("sql_functions") or {})


def session_functions(document: Document) -> dict[str, str]:
    """Returns the fingerprints of the session functions that the query calls, by name."""
    found: dict[str, str] = {}
    for expression in document["expressions"]:
        for text in expression.get("functions") or ():
            _, name, digest = [*text.split(":", 2), "", ""][:3]
            found[name] = digest
    for name in document["findings"].get("session_functions") or ():
        found.setdefault(name, "")
    return found


def check_findings(document: Document, policy: Policy) -> None:
    """Refuses a query that a view must not have.

    Raises TIDEMILL_TEMPORARY_OBJECT, or TIDEMILL_NON_DETERMINISTIC unless the policy is FULL.
    """
    findings = document["findings"]
    for name in findings.get("temporary") or ():
        raise TidemillError("TIDEMILL_TEMPORARY_OBJECT", {"kind": "view or variable", "name": name})
    if policy != "FULL":
        for text in findings.get("nondeterministic") or ():
            raise TidemillError("TIDEMILL_NON_DETERMINISTIC", {"expression": text})
