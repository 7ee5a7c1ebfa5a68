"""Draws queries in the plan text format: trees of every operator, over sources with few values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
Column: TypeAlias = tuple[int, str]

SOURCES = """\
source 0 t [a: long, b: long, x: double] rows=1000000
source 1 u [a: long, b: long, x: double] rows=1000000
source 2 w [a: integer, b: decimal(10,2), x: double] rows=1000000
source 3 clock [now: long] kind=clock
"""


class Builder:
    """Draws a query in the plan text format; columns are numbered as they come."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self._next = 0

    def column(self) -> int:
        self._next += 1
        return self._next - 1

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def some(self, columns: list[Column], most: int) -> list[Column]:
        """Some columns, in order."""
        wanted = self.draw(st.lists(st.sampled_from(columns), max_size=most, unique=True)) if columns else []
        return sorted(wanted)

    def tree(self, depth: int) -> tuple[list[str], list[Column]]:
        """The lines of a tree, and its columns with their types."""
        if depth == 0:
            return self.scan()
        shapes = (
            self.filter, self.project, self.union, self.inner, self.inner, self.outer, self.outer, self.aggregate,
            self.aggregate, self.summary, self.distinct, self.limit, self.opaque, self.semi, self.window, self.row_wise,
            self.intersect, self.totals, self.extremes, self.asked,
        )  # fmt: skip
        lines, columns = self.one(*shapes)(depth - 1)
        return lines, columns

    def scan(self) -> tuple[list[str], list[Column]]:
        source = self.one(0, 0, 1, 2)
        kinds = {"a": "integer", "b": "decimal(10,2)"} if source == 2 else {"a": "long", "b": "long"}
        columns = [(self.column(), f) for f in ("a", "b", "x")]
        text = f"scan {source} [{', '.join(f'#{c} := {f}' for c, f in columns)}]"
        return [text], [(c, kinds.get(f, "double")) for c, f in columns]

    def under(self, line: str, *parts: list[str]) -> list[str]:
        return [line, *("  " + x for part in parts for x in part)]

    def test(self, columns: list[Column], *, may_move: bool = False) -> str:
        """A condition over some columns; `may_move`: it may read the clock."""
        c = self.one(*columns)[0]
        if dict(columns)[c] == "boolean":
            return f"(#{c} = true)"
        if may_move and self.one(True, False, False):  # joins and aggregates never read the clock themselves
            return str(self.one(f"(#{c} > (clock() - 1))", f"(#{c} <= clock())", f"((#{c} + clock()) > 1)"))
        other = self.one(*columns)[0]
        right = f"#{other}" if dict(columns)[other] != "boolean" else "1"
        return str(
            self.one(f"(#{c} > 0)", f"(#{c} = 1)", f"isnull(#{c})", f"((#{c} + 1) > {right})", f"(#{c} <= {right})")
        )

    def filter(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        return self.under(f"filter [{self.test(columns, may_move=True)}]", lines), columns

    def project(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        kept = self.some(columns, 3) or columns[:1]
        new = self.column()
        base, kind = next(((c, k) for c, k in columns if k != "boolean"), (None, "long"))
        value = self.one(f"(#{base} + 1)", f"#{base}", f"coalesce(#{base}, 0)") if base is not None else "1"
        if base is not None and self.one(True, False, False, False):
            value, kind = f"(#{base} > clock())", "boolean"
        text = ", ".join([*(f"#{c}" for c, _ in kept), f"#{new} := {value}"])
        return self.under(f"project [{text}]", lines), [*kept, (new, kind)]

    def union(self, depth: int) -> tuple[list[str], list[Column]]:
        parts = [self.tree(depth) for _ in range(self.one(2, 2, 3))]
        kinds = [[k for _, k in columns] for _, columns in parts]
        shared = [k for k in dict.fromkeys(kinds[0]) if all(k in x for x in kinds)]
        if not shared:
            return parts[0]
        ids = [(self.column(), k) for k in shared]
        branches = [[self.one(*(c for c, kind in columns if kind == k)) for k in shared] for _, columns in parts]
        shown = ", ".join("[" + ", ".join(f"#{c}" for c in b) + "]" for b in branches)
        text = f"union [{', '.join(f'#{c}' for c, _ in ids)}] from=[{shown}]"
        return self.under(text, *(lines for lines, _ in parts)), ids

    def condition(self, left: list[Column], right: list[Column]) -> str:
        near, far = ([c for c, k in x if k != "boolean"] for x in (left, right))
        tests = []
        if near and far and self.one(True, True, True, False):
            tests += [
                f"(#{self.one(*near)} {self.one('=', '=', '<=>')} #{self.one(*far)})" for _ in range(self.one(1, 1, 2))
            ]
        if near and far and self.one(True, False, False):
            tests.append(f"((#{self.one(*near)} + 1) = (#{self.one(*far)} + 1))")
        if near and far and self.one(True, False):
            tests.append(f"(#{self.one(*near)} < #{self.one(*far)})")
        if self.one(True, False, False):
            tests.append(self.test(self.one(left, right)))
        return ", ".join(dict.fromkeys(tests))

    def inner(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        for _ in range(self.one(1, 1, 2)):
            more, others = self.tree(max(0, depth - 1))
            lines = self.under(f"join inner [{self.condition(columns, others)}]", lines, more)
            columns = [*columns, *others]
        return lines, columns

    def outer(self, depth: int) -> tuple[list[str], list[Column]]:
        (lines, columns), (more, others) = self.tree(depth), self.tree(max(0, depth - 1))
        kind = self.one("left", "left", "left", "right", "full")
        return self.under(f"join {kind} [{self.condition(columns, others)}]", lines, more), [*columns, *others]

    def semi(self, depth: int) -> tuple[list[str], list[Column]]:
        (lines, columns), (more, others) = self.tree(depth), self.tree(max(0, depth - 1))
        kind, extra = self.one("semi", "anti", "existence"), ""
        condition = self.condition(columns, others)
        near, far = ([c for c, k in x if k != "boolean"] for x in (columns, others))
        if near and far and self.one(True, False, False, False):  # NOT IN
            equal = f"(#{self.one(*near)} = #{self.one(*far)})"
            condition = ", ".join(x for x in (f"({equal} or isnull({equal}))", condition) if x)
        if kind == "existence":
            columns = [*columns, (self.column(), "boolean")]
            extra = f" exists=#{columns[-1][0]}"
        return self.under(f"join {kind} [{condition}]{extra}", lines, more), columns

    def asked(self, depth: int) -> tuple[list[str], list[Column]]:
        """Rows, or other groups, joined with groups or partitions by their keys: only those of some keys are needed."""
        (lines, columns), (more, others) = self.tree(max(0, depth - 1)), self.tree(max(0, depth - 1))
        near, far = ([c for c in x if c[1] != "boolean"] for x in (columns, others))
        pairs = [(a, b) for a, k in near for b, kind in far if k == kind]
        if not pairs:
            return lines, columns
        a, b = self.one(*pairs)
        kept, new = dict(others)[b], self.column()
        value, found = self.column(), self.one(*far)
        call = self.one(f"min(#{found[0]})", "count(*)", "")
        if call or self.one(True, False):
            calls = f"#{value} := {call}" if call else ""
            more = self.under(f"aggregate keys=[#{new} := #{b}] calls=[{calls}]", more)
            groups = [(new, kept), *([(value, found[1] if "min" in call else "long")] if call else [])]
        else:
            every = ", ".join(f"#{c}" for c, _ in [*others, (value, "long")])
            more = self.under(f"window [{every}] partition=[#{b}] (count of all)", more)
            new, groups = b, [*others, (value, "long")]
        kind = self.one("inner", "inner", "left", "semi", "anti")
        tests = [f"(#{a} {self.one('=', '=', '<=>')} #{new})"]
        if self.one(True, False, False):
            tests.append(self.test([*columns, *groups]))
        shown = columns if kind in {"semi", "anti"} else [*columns, *groups]
        return self.under(f"join {kind} [{', '.join(tests)}]", lines, more), shown

    def summary(self, depth: int) -> tuple[list[str], list[Column]]:
        """An aggregate right above a join of two to four inputs that share keys."""
        lines, columns = self.tree(max(0, depth - 1))
        for _ in range(self.one(1, 1, 2, 3)):
            more, others = self.tree(self.one(0, 0, 0, max(0, depth - 1)))
            near, far = ([c for c, k in x if k in {"long", "integer"}] for x in (columns, others))
            tests = [f"(#{self.one(*near)} = #{self.one(*far)})"] if near and far else []
            if not tests or self.one(True, False, False):
                tests += [x for x in (self.condition(columns, others),) if x and x not in tests]
            kind = self.one("inner", "inner", "inner", "left")
            lines = self.under(f"join {kind} [{', '.join(dict.fromkeys(tests))}]", lines, more)
            columns = [*columns, *others]
        if self.one(True, False, False):
            values = [c for c, k in columns if k in {"long", "integer"}]
            if values:
                new = self.column()
                value = f"(#{self.one(*values)} {self.one('+', '*')} {self.one(f'#{self.one(*values)}', '2')})"
                kept = ", ".join(f"#{c}" for c, _ in columns)
                lines = self.under(f"project [{kept}, #{new} := {value}]", lines)
                columns = [*columns, (new, "long")]
        return self.grouped(lines, columns)

    def aggregate(self, depth: int) -> tuple[list[str], list[Column]]:
        return self.grouped(*self.tree(depth))

    def grouped(self, lines: list[str], columns: list[Column]) -> tuple[list[str], list[Column]]:
        """An aggregate of what is drawn already, with a condition on it now and then."""
        keys = [(self.column(), f"#{c}", k) for c, k in self.some(columns, 2)]
        numbers = [(c, k) for c, k in columns if k != "boolean"]
        additive = self.one(True, True, False)
        calls = [(self.column(), "count(*)", "long")] if self.one(True, False) else []
        for _ in range(self.one(1, 2, 3) if numbers else 0):
            c, k = self.one(*numbers)
            options = [
                ("count", "long"),
                ("sum", k),
                ("avg", "double"),
                ("stddev_samp", "double"),
                ("var_pop", "double"),
            ]
            name, kind = self.one(*options) if additive else self.one(*options, ("min", k), ("max", k), ("", "long"))
            kind = {"integer": "long"}.get(kind, kind) if name == "sum" else kind
            if kind.startswith("decimal"):
                kind = "decimal" if name in {"sum", "avg"} else kind  # another precision: no partner in unions
            call = f"{name}(#{c})" if name else f"count(distinct #{c})"
            if self.one(True, False, False, False):
                call += f" filter {self.test(columns)}"
            calls.append((self.column(), call, kind))
        if not calls and not keys:
            calls = [(self.column(), "count(*)", "long")]
        shown = [", ".join(f"#{c} := {e}" for c, e, _ in x) for x in (keys, calls)]
        lines = self.under(f"aggregate keys=[{shown[0]}] calls=[{shown[1]}]", lines)
        columns = [(c, k) for c, _, k in (*keys, *calls)]
        if self.one(True, False, False):
            lines = self.under(f"filter [{self.test(columns, may_move=True)}]", lines)
        return lines, columns

    def distinct(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        ids = [(self.column(), c, k) for c, k in columns[:3]]
        return self.under(f"aggregate keys=[{', '.join(f'#{i} := #{c}' for i, c, _ in ids)}] calls=[]", lines), [
            (i, k) for i, _, k in ids
        ]

    def intersect(self, depth: int) -> tuple[list[str], list[Column]]:
        """INTERSECT and EXCEPT as Spark writes them, over columns whose equal values are the same."""
        (lines, columns), (more, others) = self.tree(depth), self.tree(max(0, depth - 1))
        near, far = ([c for c in x if c[1] not in {"boolean", "double"}] for x in (columns, others))
        if not near or not far:
            return lines, columns
        shown = self.some(near, 2) or near[:1]
        equal = self.one("=", "<=>")
        tests = ", ".join(f"(#{c} {equal} #{self.one(*far)[0]})" for c, _ in shown)
        keys = [(self.column(), c, k) for c, k in shown]
        lines = self.under(f"join {self.one('semi', 'semi', 'anti')} [{tests}]", lines, more)
        text = f"aggregate keys=[{', '.join(f'#{i} := #{c}' for i, c, _ in keys)}] calls=[]"
        return self.under(text, lines), [(i, k) for i, _, k in keys]

    def totals(self, depth: int) -> tuple[list[str], list[Column]]:
        """Sums of one side of a join."""
        (lines, columns), (more, others) = self.tree(depth), self.tree(max(0, depth - 1))
        numbers = [(c, k) for c, k in columns if k in {"integer", "long"}]
        lines = self.under(f"join inner [{self.condition(columns, others)}]", lines, more)
        keys = [(self.column(), c, k) for c, k in self.some([*columns, *others], 2)]
        calls = [(self.column(), "count(*)")]
        calls += [(self.column(), f"{self.one('sum', 'avg', 'count')}(#{c})") for c, _ in self.some(numbers, 2)]
        shown = [", ".join(f"#{i} := {e}" for i, e in x) for x in ([(i, f"#{c}") for i, c, _ in keys], calls)]
        kinds = {i: k for i, _, k in keys} | {i: "decimal" if "avg" in e else "long" for i, e in calls}
        return self.under(f"aggregate keys=[{shown[0]}] calls=[{shown[1]}]", lines), sorted(kinds.items())

    def extremes(self, depth: int) -> tuple[list[str], list[Column]]:
        """Calls that do not add up, over columns whose equal values are the same, beside sums."""
        lines, columns = self.tree(depth)
        exact = [(c, k) for c, k in columns if k in {"integer", "long"}]
        if not exact:
            return lines, columns
        calls = []
        for _ in range(self.one(1, 1, 2)):
            c, k = self.one(*exact)
            call, kind = self.one((f"min(#{c})", k), (f"max(#{c})", k), (f"count(distinct #{c})", "long"))
            call += f" filter (#{self.one(*exact)[0]} > 0)" if self.one(True, False, False) else ""
            calls.append((self.column(), call, kind))
        calls += [(self.column(), f"sum(#{c})", "long") for c, _ in self.some(exact, 1)]
        keys = [(self.column(), c, k) for c, k in self.some(columns, 2)]
        shown = [", ".join(f"#{i} := {e}" for i, e, _ in x) for x in ([(i, f"#{c}", k) for i, c, k in keys], calls)]
        text = f"aggregate keys=[{shown[0]}] calls=[{shown[1]}]"
        return self.under(text, lines), [*((i, k) for i, _, k in keys), *((i, k) for i, _, k in calls)]

    def limit(self, depth: int) -> tuple[list[str], list[Column]]:
        """A limit whose order names every column: its answer is one."""
        lines, columns = self.tree(depth)
        order = ", ".join(f"#{c} {self.one('asc', 'desc')} nulls {self.one('first', 'last')}" for c, _ in columns)
        offset = self.one("", "", " offset=1")
        return self.under(f"limit {self.one(1, 2, 3)}{offset} order=[{order}]", lines), columns

    def window(self, depth: int) -> tuple[list[str], list[Column]]:
        """Functions of all rows of a partition; of some before and behind a row, or of all before it, in an order
        without real ties; or of all before it and those that tie with it."""
        lines, columns = self.tree(depth)
        partition = ", ".join(f"#{c}" for c, _ in self.some(columns, 2))
        kind = self.one("none", "some", "since", "in order", "any order", "peers")
        by = self.some(columns, 2) or columns[:1] if kind == "peers" else columns
        order = ", ".join(f"#{c} {self.one('asc', 'desc')} nulls {self.one('first', 'last')}" for c, _ in by)
        rows = f"rows={self.one(0, 1, 2)},{self.one(0, 1, 2)}"
        around = f" order=[{order}] {rows}"
        match kind:
            case "none":
                around = ""
            case "since":
                values = ", ".join(f"#{c}" for c, _ in self.some(columns, 2) or columns[:1])
                around += f" since=[{values}]{self.one('', '', ' whole any order')}"
            case "in order" | "any order":
                around += f" whole {kind}"
            case "peers":
                around = f" order=[{order}] rows=0,0 whole any order"
        columns = [*columns, (self.column(), "long")]
        shown = ", ".join(f"#{c}" for c, _ in columns)
        return self.under(f"window [{shown}] partition=[{partition}]{around} (count of all)", lines), columns

    def row_wise(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        columns = [*(self.some(columns, 3) or columns[:1]), (self.column(), "long")]
        return self.under(f"row_wise Expand [{', '.join(f'#{c}' for c, _ in columns)}] (sets)", lines), columns

    def opaque(self, depth: int) -> tuple[list[str], list[Column]]:
        lines, columns = self.tree(depth)
        columns = [*columns, (self.column(), "long")]
        return self.under(f"opaque Window [{', '.join(f'#{c}' for c, _ in columns)}] (no rule)", lines), columns


@st.composite
def queries(draw: Draw) -> str:
    builder = Builder(draw)
    lines, columns = builder.tree(draw(st.sampled_from([1, 2, 2, 3])))
    chosen = builder.some(columns, 4) if builder.one(True, False, False) else columns
    output = chosen or columns
    header = f"output [{', '.join(f'#{c} := c{i}' for i, (c, _) in enumerate(output))}]\n"
    return SOURCES + header + "\n".join(lines)
