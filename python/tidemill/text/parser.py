"""The parser of the plan text format: reads a whole query from text, for tests and bug reports, without a JVM.

It is the inverse of `Printer.query`: `Printer.query(parse_query(text)) == text` for text as the printer writes it:

    source 0 t [k: long, v: long] rows=1000
    output [#2 := k, #3 := total]
    aggregate keys=[#2 := #0] calls=[#3 := sum(#1)]
      filter [(#1 > 3)]
        scan 0 [#0 := k, #1 := v]

Expressions are columns, literals, casts, calls, infix operators, `count(*)`, `sum(distinct #1)` and
`sum(#1) filter (#2 > 3)`. Everything but columns and literals becomes a handle, as if it came from the JVM.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from tidemill.plan.datatype import type_from_text
from tidemill.plan.expr import Cast, Col, Expr, Fn, Handle, Lit, walk
from tidemill.plan.kinds import JOIN_KINDS, OPERATOR_NAMES, SOURCE_KINDS, OperatorName
from tidemill.plan.query import Query
from tidemill.text.calls import AGGREGATES, arguments_of, buffers, condition_of, result_type
from tidemill.text.line import Line, PlanSyntaxError
from tidemill.text.printer import WHERE, Printer
from tidemill.wire.expressions import expr_to_json
from tidemill.wire.nodes import WireNode, inputs_of, kind_named, node
from tidemill.wire.query_document import WIRE_VERSION, read_query

_BOOLEANS = frozenset({"=", "<=>", "<", "<=", ">", ">=", "and", "or", "not", "isnull", "isnotnull"})


def parse_query(text: str) -> Query:
    """Reads a query.

    Raises:
        PlanSyntaxError: for text that is not in the format, or names columns that no operator makes.
    """
    return read_query(parse_document(text))


def parse_document(text: str) -> dict[str, Any]:
    """The query document of a query's text, as the JVM would send it; raises like `parse_query`."""
    return _Document().read(text)


def parse_expr(text: str) -> Expr:
    """An expression without handles, parsed to its leaves; raises PlanSyntaxError."""
    line = Line(text)
    expr = line.expr()
    line.end()
    return expr


class _Document:
    """Builds a query document from text."""

    def __init__(self) -> None:
        self._sources: dict[int, dict[str, Any]] = {}
        self._columns: dict[int, tuple[str, Any]] = {}
        self._handles: dict[str, dict[str, Any]] = {}
        self._output: list[list[Any]] | None = None
        self._opaques = 0
        self._shared: dict[str, dict[str, Any]] = {}
        self._printer = Printer()

    def read(self, text: str) -> dict[str, Any]:
        lines = [x for x in text.splitlines() if x.strip()]
        while lines and (header := re.match(r"(source|output) ", lines[0])):
            self._header(header[1], Line(lines.pop(0)[header.end() :]))
        if not lines:
            raise PlanSyntaxError("a query needs a plan")
        root, rest = self._tree(lines, 0)
        if rest:
            raise PlanSyntaxError(f"a second root: {rest[0]}")
        output = self._output or self._all(_columns(root))
        for column, name in output:
            self._require(column, "output")
            self._columns[column] = (name, self._columns[column][1])
        return {
            "version": WIRE_VERSION,
            "query": 0,
            "columns": [
                {"id": c, "name": n, "type": type_from_text(t), "nullable": True}
                for c, (n, t) in sorted(self._columns.items())
            ],
            "expressions": list(self._handles.values()),
            "sources": [self._sources[s] for s in sorted(self._sources)],
            "root": root,
            "output": output,
            "order_dropped": False,
            "findings": {"temporary": [], "nondeterministic": [], "time_dependent": [], "session_functions": []},
        }

    def _all(self, columns: list[int]) -> list[list[Any]]:
        """All columns as output, with generated names."""
        names: dict[str, int] = {}
        for column in columns:
            name = self._columns[column][0]
            names[f"c{column}" if name in names else name] = column
        return [[c, n] for n, c in names.items()]

    def _header(self, word: str, line: Line) -> None:
        if word == "output":
            self._output = line.items(line.field)
            return line.end()
        number, name = line.number(), line.next()
        kind, rows, fields = "files", None, line.items(line.typed)
        while line.peek():
            option = line.next()
            line.expect("=")
            if option == "rows":
                rows = line.number()
            elif option == "kind":
                kind = line.next()
                if kind not in SOURCE_KINDS:
                    raise line.error(f"unknown kind of source {kind!r}")
            else:
                raise line.error(f"unknown option {option!r}")
        entry = {"source": number, "kind": kind, "format": "parquet", "name": name, "id": f"id of {name}", "path": name}
        more = {"fields": fields, "bytes": None, "rows": rows, "partitions": [], "location": None, "reason": ""}
        self._sources[number] = {**entry, **more}
        return None

    # -- trees --------------------------------------------------------------------------------------------------------

    def _tree(self, lines: list[str], depth: int) -> tuple[dict[str, Any], list[str]]:
        """The node at the first line, and the lines after the node."""
        text, rest = lines[0].strip(), lines[1:]
        if text in self._shared:
            return self._shared[text], rest
        named = re.match(r"(r\d+) := ", text)
        if named:
            text = text[named.end() :]
        inputs = []
        while rest and _depth(rest[0]) > depth:
            if _depth(rest[0]) != depth + 1:
                raise PlanSyntaxError(f"wrong indent in: {rest[0]}")
            node, rest = self._tree(rest, depth + 1)
            inputs.append(node)
        word, _, operands = text.partition(" ")
        made = self._op(word, operands, inputs)
        if named:
            self._shared[named[1]] = made
        return made, rest

    def _op(self, word: str, operands: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        reason = ""
        if word in _DESCRIBED and (found := re.search(r" \((.*)\)$", operands)):
            reason, operands = found[1], operands[: found.start()]
        name = next((name for name in OPERATOR_NAMES if name == word), None)
        if name is None:
            raise PlanSyntaxError(f"unknown operator {word!r}")
        line = Line(operands)
        payload = self._payload(name, line, inputs)
        line.end()
        described = dict.fromkeys(_DESCRIBED.get(word, ()), reason)
        return node(kind_named(word), {**payload, **described}, *inputs)

    def _payload(self, name: OperatorName, line: Line, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        match name:
            case "scan":
                return self._scan(line)
            case "filter":
                return {"condition": self._exprs(line)}
            case "sort":
                line.expect("order", "=")
                return {"order": self._order(line)}
            case "project":
                return {"columns": self._named(line)}
            case "aggregate":
                return self._aggregate(line)
            case "join":
                return self._join(line)
            case "union":
                return self._union(line, inputs)
            case "limit":
                return self._limit(line)
            case "opaque" | "row_wise":
                return self._opaque(line, inputs)
            case "window":
                return self._window(line)
            case _:
                assert_never(name)

    def _scan(self, line: Line) -> dict[str, Any]:
        source, columns = line.number(), line.items(line.field)
        if source not in self._sources:
            raise line.error(f"no source {source}")
        types = {f: t for f, t, _ in self._sources[source]["fields"]}
        for column, field in columns:
            if field not in types:
                raise line.error(f"source {source} has no field {field!r}")
            self._columns[column] = (field, types[field])
        return {"source": source, "columns": columns, "at": None}

    def _aggregate(self, line: Line) -> dict[str, Any]:
        line.expect("keys", "=")
        keys = self._named(line)
        line.expect("calls", "=")
        return {"keys": keys, "aggregates": self._named(line)}

    def _join(self, line: Line) -> dict[str, Any]:
        kind = line.next()
        if kind not in JOIN_KINDS:
            raise line.error(f"unknown kind of join {kind!r}")
        condition = self._exprs(line)
        node: dict[str, Any] = {"kind": kind, "condition": condition, "broadcast": None}
        if line.accept("exists", "="):
            node["exists"] = line.column()
            self._columns[node["exists"]] = ("exists", "boolean")
        return node

    def _union(self, line: Line, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        columns = line.items(line.column)
        line.expect("from", "=")
        branches = line.items(lambda: line.items(line.column))
        if len(branches) != len(inputs) or any(len(b) != len(columns) for b in branches):
            raise line.error("branches do not fit the inputs")
        for i, column in enumerate(columns):
            self._columns[column] = self._columns[branches[0][i]]
        return {"columns": columns, "from": branches}

    def _limit(self, line: Line) -> dict[str, Any]:
        limit, offset = line.expr(), None
        if line.accept("offset", "="):
            offset = self._wire(line.expr())
        line.expect("order", "=")
        return {"limit": self._wire(limit), "offset": offset, "order": self._order(line)}

    def _opaque(self, line: Line, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        name, columns = line.next(), line.items(line.column)
        for column in columns:
            self._columns.setdefault(column, (f"c{column}", "long"))
        return {"name": name, "node": self._node(), "columns": columns, "children": len(inputs)}

    def _window(self, line: Line) -> dict[str, Any]:
        """The node's window functions; for tests: the number of rows of the partition, which needs no order, or values
        made from the rows around each row."""
        columns = line.items(line.column)
        for column in columns:
            self._columns.setdefault(column, (f"c{column}", "long"))
        line.expect("partition", "=")
        partition = self._exprs(line)
        calls: list[dict[str, Any]] = [{"function": "count", "frame": "partition", "floating": False}]
        order: list[list[Any]] = []
        if line.accept("order", "="):
            order = self._order(line)
            calls = self._bounded(line)
        return {"node": self._node(), "columns": columns, "partition": partition, "calls": calls, "order": order}

    def _bounded(self, line: Line) -> list[dict[str, Any]]:
        """A function of some rows around each row, if there are any, one per value that it reads since, and one of all
        rows before."""
        line.expect("rows", "=")
        before = line.number()
        line.expect(",")
        rows = [before, line.number()]
        calls = []
        if line.accept("since", "="):
            last = {"function": "last", "frame": "rows", "floating": False, "rows": [0, 0]}
            calls += [{**last, "since": e} for e in self._exprs(line)]
        if line.accept("whole"):
            word = line.next()
            line.expect("order")
            function, frame = ("count", "range") if word == "any" else ("first", "rows")
            calls.append({"function": function, "frame": frame, "floating": False, "rows": [None, 0]})
        if any(rows) or not calls:
            calls.append({"function": "min", "frame": "rows", "floating": False, "rows": rows})
        return calls

    def _node(self) -> int:
        self._opaques += 1
        return self._opaques - 1

    def _exprs(self, line: Line) -> list[dict[str, Any]]:
        return [self._wire(e) for e in line.items(line.expr)]

    def _order(self, line: Line) -> list[list[Any]]:
        return [[self._wire(e), up, first] for e, up, first in line.items(line.sort_key)]

    def _named(self, line: Line) -> list[list[Any]]:
        named = []
        for column, expr in line.items(line.named):
            wire = self._wire(expr)
            self._columns.setdefault(column, (f"c{column}", self._type(expr)))
            named.append([column, wire])
        return named

    # -- expressions --------------------------------------------------------------------------------------------------

    def _wire(self, expr: Expr) -> dict[str, Any]:
        """The JSON of a column, of a literal, or of a handle with its facts."""
        if isinstance(expr, Col):
            self._require(expr.id, "an expression")
        if isinstance(expr, Col | Lit):
            return expr_to_json(expr)
        text = self._printer.expr(expr)
        if text not in self._handles:
            columns = sorted({e.id for e in walk(expr) if isinstance(e, Col)})
            for column in columns:
                self._require(column, text)
            facts = {"equal": self._equal(expr), "compare": _compare(expr), "aggregate": self._aggregate_call(expr)}
            self._handles[text] = {
                "handle": len(self._handles),  # the operands of an equality got their handles just before
                "text": text,
                "columns": columns,
                "type": type_from_text(self._type(expr)),
                "nullable": True,
                "deterministic": True,
                "time_dependent": any(isinstance(e, Fn) and e.name == CLOCK for e in walk(expr)),
                "functions": [],
                **facts,
            }
        return expr_to_json(Handle(self._handles[text]["handle"]))

    def _require(self, column: int, where: str) -> None:
        if column not in self._columns:
            raise PlanSyntaxError(f"no operator below makes column #{column} of {where}")

    def _equal(self, expr: Expr) -> dict[str, Any] | None:
        if not isinstance(expr, Fn) or expr.name not in {"=", "<=>"}:
            return None
        left, right = (self._wire(a) for a in expr.args)
        return {"left": left, "right": right, "null_safe": expr.name == "<=>"}

    def _aggregate_call(self, expr: Expr) -> dict[str, Any] | None:
        call, condition = condition_of(expr)
        if not isinstance(call, Fn) or call.name not in AGGREGATES:
            return None
        distinct, args = arguments_of(call)
        return {
            "function": call.name,
            "args": [self._wire(a) for a in args],
            "distinct": distinct,
            "filter": None if condition is None else self._wire(condition),
            "buffers": buffers(call.name, self._type(args[0]) if args else "long"),
        }

    def _type(self, expr: Expr) -> str:
        match expr:
            case Col(column):
                self._require(column, "an expression")
                return str(self._columns[column][1])
            case Lit(_, kind) | Cast(_, kind):
                return kind
            case Fn(name, _) if name in AGGREGATES or name == WHERE:
                call, _ = condition_of(expr)
                assert isinstance(call, Fn)
                _, arguments = arguments_of(call)
                return result_type(call.name, self._type(arguments[0]) if arguments else "long")
            case Fn(name, _) if name in _BOOLEANS:
                return "boolean"
            case Fn("if", (_, yes, no)):
                return self._type(yes) if self._type(yes) != "void" else self._type(no)
            case Fn("/", _):
                return "double"
            case Fn(_, args):
                kinds = [self._type(a) for a in args]
                return next((k for k in ("double", *kinds) if k in kinds and k != "void"), "long")
        raise PlanSyntaxError(f"no type for {expr}")


CLOCK = "clock"
"""The function by which plans as text read the clock: the number of its moment in a source of the kind `clock`."""
_DESCRIBED: dict[str, tuple[str, ...]] = {"opaque": ("reason", "text"), "row_wise": ("text",), "window": ("text",)}
"""Operators whose line ends with text in parentheses, and the meaning of that text."""


def _compare(expr: Expr) -> dict[str, Any] | None:
    match expr:
        case Fn("=" | "<=>" | "<" | "<=" | ">" | ">=" as op, (Col(column), Lit(value, _))):
            return {"column": column, "op": op, "value": value}
    return None


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2


def _columns(made: WireNode) -> list[int]:
    """The output columns of a wire node of a query."""
    name: OperatorName = made["op"]
    match name:
        case "scan" | "project":
            return [c for c, _ in made["columns"]]
        case "aggregate":
            return [c for c, _ in (*made["keys"], *made["aggregates"])]
        case "union" | "opaque" | "row_wise" | "window":
            return list(made["columns"])
        case "join" if made["kind"] == "existence":
            return [*_columns(inputs_of(made)[0]), made["exists"]]
        case "join" if made["kind"] not in {"semi", "anti"}:
            return [c for i in inputs_of(made) for c in _columns(i)]
        case "join" | "filter" | "sort" | "limit":
            return _columns(inputs_of(made)[0])
        case _:
            assert_never(name)
