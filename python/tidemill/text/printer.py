"""The text format of plans, for people and for tests: printable and parseable.

There is one line per operator, with its inputs below it, indented by two spaces:

    aggregate keys=[#4 := #1] calls=[#5 := sum(#2)]
      filter [(#0 > 3)]
        scan 0 [#0 := a, #1 := b, #2 := c]

Nodes that are used twice are named once: `r0 := ...`, then `r0`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from tidemill.plan.expr import Cast, Col, Evaluate, Expr, Fn, Handle, Lit, Timed
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Bounds,
    Changes,
    Combine,
    Crossing,
    Empty,
    Filter,
    Final,
    FinalChange,
    FromStart,
    Gather,
    HeldScan,
    Join,
    JoinChange,
    KeyFilter,
    Keys,
    Less,
    Limit,
    LookUp,
    Merge,
    Negate,
    Net,
    Op,
    Opaque,
    Pad,
    Partial,
    Project,
    Reach,
    ReachedWindow,
    ResultScan,
    RowWise,
    Scan,
    Sort,
    SortKey,
    StateScan,
    Sum,
    Union,
    Unsign,
    Window,
)
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree

INFIX = {"or": 0, "and": 1, "=": 2, "<=>": 2, "<": 2, "<=": 2, ">": 2, ">=": 2, "+": 3, "-": 3, "*": 4, "/": 4}
"""Functions that are written as infix operators, with their precedence."""
DISTINCT, WHERE = "distinct", "filter"
"""Functions by which the text of a call shows DISTINCT (around its arguments) and FILTER (around the call)."""


_COLUMN = re.compile(r"'(?:[^'\\]|\\.)*'|#(\d+)", re.DOTALL)
"""A string literal, which stays as it is, or the number of a column."""


def name_columns(text: str, name: Callable[[int], str]) -> str:
    """Catalyst's text of an expression with its columns, `#number`, replaced by names.

    >>> name_columns("(#1 = 'Brand#23')", lambda column: f"c{column}")
    "(c1 = 'Brand#23')"
    """
    return _COLUMN.sub(lambda found: name(int(found[1])) if found[1] else found[0], text)


class Printer:
    """Prints expressions and operators; `query` provides the text of handles, `name` the names of columns."""

    def __init__(self, query: Query | None = None, name: Callable[[int], str] = lambda c: f"#{c}") -> None:
        self._query = query
        self._name = name

    def expr(self, expr: Expr) -> str:
        """An expression as text."""
        match expr:
            case Col(number):
                return self._name(number)
            case Handle(number):
                if self._query is None:
                    return f"@{number}"
                return self._resolve(self._query.expressions[number].text)
            case Timed(number, at):
                return f"{self.expr(Handle(number))}@{at}"
            case Lit(None, _):
                return "NULL"
            case Lit(str(value), _):
                return "'" + value.replace("'", "''") + "'"
            case Lit(value, _):
                return str(value).lower() if isinstance(value, bool) else str(value)
            case Fn(name, (left, right)) if name in INFIX:
                return f"({self.expr(left)} {name} {self.expr(right)})"
            case Fn(name, (call, condition)) if name == WHERE:
                return f"{self.expr(call)} filter {self.expr(condition)}"
            case Fn(name, args) if name == DISTINCT:
                return f"distinct {', '.join(map(self.expr, args))}"
            case Fn("count", (Lit(1, "integer"),)):
                return "count(*)"
            case Fn(name, args):
                return f"{name}({', '.join(map(self.expr, args))})"
            case Cast(child, to):
                return f"cast({self.expr(child)} as {to})"
            case Evaluate(number, buffers):
                return f"evaluate({self.expr(Handle(number))}; {', '.join(map(self.expr, buffers))})"
            case _:
                assert_never(expr)

    def _resolve(self, text: str) -> str:
        return name_columns(text, self._name)

    def op(self, op: Op) -> str:
        """One operator, without its inputs."""
        word = name_of(type(op))
        match op:
            case Scan(source, columns, at):
                return f"{word} {source}{'' if at is None else f'@{at}'} {self._fields(columns)}"
            case Changes(source, columns, start, end):
                return f"{word} {source}({start}, {end}] {self._fields(columns)}"
            case Crossing(of, start, end):
                return f"{word} ({start}, {end}] {self.op(of)}"
            case Filter(condition):
                return f"{word} {self._list(condition)}"
            case Project(columns):
                return f"{word} {self._named(columns)}"
            case Join(kind, condition, exists):
                extra = f" exists={self._name(exists)}" if exists is not None else ""
                return f"{word} {kind} {self._list(condition)}{extra}"
            case Aggregate(keys, calls) | Partial(keys, calls):
                return f"{word} keys={self._named(keys)} calls={self._named(calls)}"
            case Sort(order):
                return f"{word} order={self._order(order)}"
            case Limit(limit, offset, order):
                extra = f" offset={self.expr(offset)}" if offset else ""
                return f"{word} {self.expr(limit)}{extra} order={self._order(order)}"
            case Union(ids, branches):
                parts = ", ".join("[" + ", ".join(map(self._name, b)) + "]" for b in branches)
                return f"{word} [{', '.join(map(self._name, ids))}] from=[{parts}]"
            case RowWise(name, _, ids, text):
                return f"{word} {name} [{', '.join(map(self._name, ids))}] ({self._resolve(text)})"
            case Window(_, ids, partition, _, text):
                shown = f"[{', '.join(map(self._name, ids))}] partition={self._list(partition)}"
                if op.bounds is not None:
                    shown += f" order={self._order(op.order)} {self._bounds(op.bounds)}"
                return f"{word} {shown} ({self._resolve(text)})"
            case Opaque(name, _, reason, ids):
                return f"{word} {name} [{', '.join(map(self._name, ids))}] ({reason})"
            case StateScan(name, form, columns, part):
                shown = f"{name} {part}" if part else name
                return f"{word} {shown} {form} {self._fields(tuple((c, f) for c, f, _ in columns))}"
            case ResultScan(columns) | HeldScan(columns):
                return f"{word} {self._fields(tuple((c, f) for c, f, _ in columns))}"
            case Answer(partial, calls):
                return f"{word} keys={self._named(partial.keys)} calls={self._named((*partial.calls, *calls))}"
            case KeyFilter(on, nulls):
                return f"{word} {self._asked(on, nulls)}"
            case LookUp(scan, on, nulls):
                return f"{word} {self._asked(on, nulls)} in {self.op(scan)}"
            case Keys(branches):
                return f"{word} {'; '.join(self._named(b) for b in branches)}"
            case Pad(columns):
                return f"{word} [{', '.join(self._name(c) for c, _ in columns)}]"
            case Merge(partial) | Combine(partial) | Gather(partial) | Final(partial) | FinalChange(partial):
                return f"{word} keys={self._named(partial.keys)} calls={self._named(partial.calls)}"
            case Reach(partition, order, bounds, reached, read):
                starts = f"{self._name(reached)} {self._name(read)}"
                shown = f"{self._named(partition)} order={self._order(order)} {self._bounds(bounds)}"
                return f"{word} {shown} starts={starts}"
            case FromStart(on, order, start):
                return f"{word} {self._asked(on, nulls=True)} {self._sort_key(order)} start={self._name(start)}"
            case ReachedWindow(window, on, read, reached):
                starts = f"starts={self._name(reached)} {self._name(read)}"
                return f"{word} {self._asked(on, nulls=True)} {starts} of {self.op(window)}"
            case JoinChange(condition, marks, picked):
                shown = ", ".join("-" if mark is None else self._name(mark) for mark in marks)
                return f"{word} {self._list(condition)} marks=[{shown}] picked=[{', '.join(map(str, picked))}]"
            case Empty(ids) | Net(ids) | Unsign(ids) | Less(ids):
                return f"{word} [{', '.join(map(self._name, ids))}]"
            case Sum() | Negate():
                return word
            case _:
                assert_never(op)

    def _bounds(self, bounds: Bounds) -> str:
        since = f" since={self._list(bounds.since)}" if bounds.since else ""
        whole = f" whole {bounds.whole}" if bounds.whole else ""
        return f"rows={bounds.before},{bounds.behind}{since}{whole}"

    def _asked(self, on: Sequence[tuple[Expr, int]], nulls: bool) -> str:
        equal = "<=>" if nulls else "="
        return f"[{', '.join(f'{self.expr(e)} {equal} {self._name(c)}' for e, c in on)}]"

    def _named(self, named: Sequence[tuple[int, Expr]]) -> str:
        return (
            "["
            + ", ".join(self._name(c) if e == Col(c) else f"{self._name(c)} := {self.expr(e)}" for c, e in named)
            + "]"
        )

    def _fields(self, columns: Sequence[tuple[int, str]]) -> str:
        return "[" + ", ".join(f"{self._name(c)} := {f}" for c, f in columns) + "]"

    def _list(self, exprs: Sequence[Expr]) -> str:
        return "[" + ", ".join(map(self.expr, exprs)) + "]"

    def _order(self, order: Sequence[SortKey]) -> str:
        return f"[{', '.join(map(self._sort_key, order))}]"

    def _sort_key(self, key: SortKey) -> str:
        direction = "asc" if key.ascending else "desc"
        return f"{self.expr(key.expr)} {direction} nulls {'first' if key.nulls_first else 'last'}"

    def query(self) -> str:
        """The whole query: sources, output, plan. `tidemill.text.parser` reads it back.

        Raises:
            ValueError: if the printer has no query.
        """
        if self._query is None:
            raise ValueError("this printer has no query")
        lines = []
        for s in self._query.sources.values():
            kind = f" kind={s.kind}" if s.kind != "files" else ""
            rows = f" rows={s.rows:.0f}" if s.rows is not None else ""
            lines.append(f"source {s.source} {s.name} [{', '.join(f'{n}: {t}' for n, t, _ in s.fields)}]{kind}{rows}")
        lines.append(f"output {self._fields(self._query.output)}")
        return "\n".join((*lines, self.tree(self._query.root)))

    def tree(self, tree: Tree) -> str:
        """A whole plan; shared nodes are named once."""
        uses: dict[Tree, int] = {}
        for node in _nodes(tree):
            uses[node] = uses.get(node, 0) + 1
        names: dict[Tree, str] = {}
        lines: list[str] = []

        def show(node: Tree, depth: int) -> None:
            indent = "  " * depth
            if node in names:
                lines.append(f"{indent}{names[node]}")
                return
            prefix = ""
            if uses[node] > 1 and node.inputs:
                names[node] = f"r{len(names)}"
                prefix = f"{names[node]} := "
            lines.append(f"{indent}{prefix}{self.op(node.op)}")
            for child in node.inputs:
                show(child, depth + 1)

        show(tree, 0)
        return "\n".join(lines)


def _nodes(tree: Tree) -> Iterator[Tree]:
    seen: set[Tree] = set()

    def visit(node: Tree) -> Iterator[Tree]:
        yield node
        if node in seen:
            return
        seen.add(node)
        for child in node.inputs:
            yield from visit(child)

    return visit(tree)


def name_of(operator: type[Op]) -> str:
    """The name of an operator in plans as text.

    >>> name_of(RowWise)
    'row_wise'
    """
    name = operator.__name__
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))
