"""Random queries of the maintained surface, well-typed, over the tables that `changes.py` changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.system.expressions import (
    EVERY,
    GROUPS,
    KEY,
    SAME,
    TYPES,
    Column,
    Output,
    aggregate,
    condition,
    literal,
    order,
    scalar,
    spelled,
)

TABLES = ("f", "g", "p")
PLAIN_VIEWS = ("here", "west")
"""Plain views of one text over `f`, made under the session's time zone and under another."""
COLUMNS = {
    "k": "bigint",
    "x": "bigint",
    "s": "string",
    "m": "decimal",
    "d": "double",
    "t": "date",
    "c": "collated",
    "n": "mapped",
    "w": "variant",
}
"""Columns of every table: join key, number, string, DECIMAL(10, 2), double, date; a string that queries read under a
collation, since Delta has none; a struct with a map and a timestamp; a struct with a variant and a timestamp."""


@dataclass(frozen=True, slots=True)
class Query:
    """A view's query.

    Attributes:
        checked: the query with the scales of its inexact columns behind its own.
        inexact: positions of the columns whose last bits depend on the order of additions.
    """

    text: str
    checked: str
    inexact: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """A select statement; scales as select items of the same statement."""

    text: str
    checked: str
    outputs: tuple[Output, ...]


@st.composite
def queries(draw: DrawFn) -> Query:
    """Any query of the surface."""
    top = draw(st.sampled_from(["plain", "plain", "plain", "set", "limit", "cte", "window", "sessions"]))
    match top:
        case "set":
            types = [draw(st.sampled_from(TYPES)) for _ in range(draw(st.integers(1, 3)))]
            parts = [_select(draw, types, ordered=True) for _ in range(draw(st.integers(2, 3)))]
            block = _set(parts, draw(st.sampled_from(SETS)))
            if draw(st.booleans()):
                block = _over(draw, block.text, [o.type for o in block.outputs])
        case "window":
            block = _windows(draw)
        case "sessions":
            block = _sessions(draw)
        case "limit":
            inner = _block(draw, exact=True, ordered=True)
            by = ", ".join(f"c{i} {draw(st.sampled_from(['ASC', 'DESC']))}" for i in range(len(inner.outputs)))
            text = f"SELECT * FROM ({inner.text}) ORDER BY {by} LIMIT {draw(st.integers(1, 6))}"
            block = _Block(text, text, inner.outputs)
        case "cte":
            inner = _block(draw, exact=True)
            block = _over(draw, "w", [o.type for o in inner.outputs])
            with_ = f"WITH w AS ({inner.text}) "
            block = _Block(with_ + block.text, with_ + block.checked, block.outputs)
        case _:
            block = _block(draw, exact=False)
    return Query(block.text, block.checked, tuple(i for i, o in enumerate(block.outputs) if o.scale is not None))


SETS = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def _block(draw: DrawFn, *, exact: bool, ordered: bool = False) -> _Block:
    """`ordered`: rows that compare as equal are the same, in columns that can be compared."""
    if draw(st.booleans()):
        return _aggregate(draw, *_from(draw), exact=exact, ordered=ordered)
    some = TYPES if ordered else EVERY
    return _select(draw, [draw(st.sampled_from(some)) for _ in range(draw(st.integers(1, 4)))], ordered=ordered)


def _over(draw: DrawFn, relation: str, types: Sequence[str]) -> _Block:
    """A block over a sub-query or a CTE, sometimes joined with itself."""
    name = relation if relation == "w" else f"({relation})"
    columns = [Column(f"q0.c{i}", t) for i, t in enumerate(types)]
    source = f"{name} AS q0"
    if draw(st.booleans()):
        kind = draw(st.sampled_from(JOINS))
        comparable = [i for i, t in enumerate(types) if t in TYPES]
        i = draw(st.sampled_from(comparable or [0]))
        operator = draw(st.sampled_from(["=", "<=>"]))
        on = f"q0.c{i} {operator} q1.c{i}" if comparable else f"q0.c{i} IS NULL AND q1.c{i} IS NULL"
        source += f" {kind} {name} AS q1 ON {on}"
        columns += _in_scope(kind, [Column(f"q1.c{i}", t) for i, t in enumerate(types)])
    if draw(st.booleans()):
        return _aggregate(draw, source, columns, exact=False)
    return _select_from(draw, source, columns, [draw(st.sampled_from(EVERY)) for _ in range(draw(st.integers(1, 3)))])


def _select(draw: DrawFn, types: Sequence[str], *, ordered: bool = False) -> _Block:
    return _select_from(draw, *_from(draw), types, ordered=ordered)


def _select_from(
    draw: DrawFn, source: str, columns: Sequence[Column], types: Sequence[str], *, ordered: bool = False
) -> _Block:
    distinct = "DISTINCT " if draw(st.integers(0, 3)) == 0 and set(types) <= set(TYPES) else ""
    values = [_cast(scalar(draw, columns, t), t) for t in types]
    outputs = tuple(Output(spelled(v, t) if distinct or ordered else v, t) for v, t in zip(values, types, strict=True))
    items = ", ".join(f"{o.text} AS c{i}" for i, o in enumerate(outputs))
    text = f"SELECT {distinct}{items} FROM {source}{_where(draw, columns)}"
    return _Block(text, text, outputs)


def _aggregate(
    draw: DrawFn,
    source: str,
    columns: Sequence[Column],
    *,
    exact: bool,
    ordered: bool = False,
    by: Sequence[str] | None = None,
) -> _Block:
    """`by`: the types of the keys; None: any."""
    some = TYPES if ordered else GROUPS
    keys = by if by is not None else [draw(st.sampled_from(some)) for _ in range(draw(st.integers(0, 2)))]
    groups = [scalar(draw, columns, t, 1) for t in keys]
    grouped = [Output(spelled(k, t), t) for k, t in zip(groups, keys, strict=True)]
    calls = [aggregate(draw, columns, exact=exact) for _ in range(draw(st.integers(1, 3)))]
    # Whichever spelling a group has, it is one of those of its rows.
    calls += [
        Output(f"array_contains(collect_set(CAST({k} AS STRING)), CAST({k} AS STRING))", "bigint")
        for k, t in zip(groups, keys, strict=True)
        if t == "collated" and draw(st.booleans())
    ]
    having = ""
    if draw(st.integers(0, 3)) == 0:
        having = (
            f" HAVING {draw(st.sampled_from(['count(*) > 1', 'sum(x_) > 2', 'max(x_) IS NOT NULL', 'count(x_) = 2']))}"
        )
        having = having.replace("x_", scalar(draw, columns, "bigint", 0))
    if draw(st.integers(0, 5)) == 0:
        calls.append(Output(draw(st.sampled_from(["{}", "count(*) * {}"])).format(_value(draw)), "bigint"))
    outputs = tuple(Output(_cast(o.text, o.type), o.type, o.scale) for o in (*grouped, *calls))
    items = [f"{o.text} AS c{i}" for i, o in enumerate(outputs)]
    scales = [f"{o.scale} AS s{i}" for i, o in enumerate(outputs) if o.scale is not None]
    by = f" GROUP BY {_grouping(draw, groups)}" if keys else ""
    tail = f" FROM {source}{_where(draw, columns)}{by}{having}"
    return _Block("SELECT " + ", ".join(items) + tail, "SELECT " + ", ".join(items + scales) + tail, outputs)


def _grouping(draw: DrawFn, keys: Sequence[str]) -> str:
    """The keys, one in five times in several sets."""
    listed = ", ".join(keys)
    sets = (f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({keys[0]}), ())")
    return draw(st.sampled_from(sets)) if len(set(keys)) == len(keys) and draw(st.integers(0, 4)) == 0 else listed


def _value(draw: DrawFn) -> str:
    """A value of one table as a whole, in the place of a number."""
    table = draw(st.sampled_from(TABLES))
    inner = _columns("e")
    rows = f"FROM {table} AS e WHERE {condition(draw, inner, 1)}"
    whole = (f"(SELECT count(*) {rows})", f"(SELECT max(e.k) {rows})", f"CAST(EXISTS (SELECT 1 {rows}) AS BIGINT)")
    return draw(st.sampled_from(whole))


def _sessions(draw: DrawFn) -> _Block:
    """Sessions of days, within groups or of all rows: the gap is long enough for some to merge."""
    source, columns = _from(draw)
    session = (
        f"session_window(CAST({scalar(draw, columns, 'date', 1)} AS TIMESTAMP), '{draw(st.integers(1, 40))} days')"
    )
    keys = [draw(st.sampled_from(TYPES)) for _ in range(draw(st.integers(0, 2)))]
    grouped = [Output(scalar(draw, columns, t, 0), t) for t in keys]
    shown = [Output(f"CAST(session_window.{draw(st.sampled_from(['start', 'end']))} AS DATE)", "date")]
    calls = [aggregate(draw, columns, exact=True) for _ in range(draw(st.integers(1, 2)))]
    outputs = tuple(Output(_cast(o.text, o.type), o.type) for o in (*grouped, *shown, *calls))
    items = ", ".join(f"{o.text} AS c{i}" for i, o in enumerate(outputs))
    by = ", ".join([*(o.text for o in grouped), session])
    text = f"SELECT {items} FROM {source}{_where(draw, columns)} GROUP BY {by}"
    return _Block(text, text, outputs)


def _windows(draw: DrawFn) -> _Block:
    """Rows with functions over their partitions; where ties count, the order is of all columns."""
    source, columns = _from(draw)
    total = ", ".join(map(order, columns))
    items = [
        Output(_cast(scalar(draw, columns, t, 0), t), t) for t in draw(st.lists(st.sampled_from(EVERY), max_size=2))
    ]
    for _ in range(draw(st.integers(1, 2))):
        parts = [scalar(draw, columns, draw(st.sampled_from(TYPES)), 1) for _ in range(draw(st.integers(0, 2)))]
        by = f"PARTITION BY {', '.join(parts)} " if parts else ""
        type_ = draw(st.sampled_from(["bigint", "decimal", "string", "date", "collated"]))
        value = scalar(draw, columns, type_, 1)
        ordered = f"ORDER BY {value} {draw(st.sampled_from(['ASC', 'DESC NULLS LAST']))}"
        shifted = draw(st.sampled_from(EVERY))
        missing = f"if({condition(draw, columns, 1)}, {scalar(draw, columns, shifted, 1)}, NULL)"
        counted = f"CAST(length({scalar(draw, columns, 'string', 1)}) AS BIGINT)"
        function, found = draw(
            st.sampled_from(
                [
                    (f"rank() OVER ({by}{ordered})", "bigint"),
                    (f"dense_rank() OVER ({by}{ordered})", "bigint"),
                    (f"row_number() OVER ({by}ORDER BY {total})", "bigint"),
                    (f"lag({scalar(draw, columns, shifted, 1)}) OVER ({by}ORDER BY {total})", shifted),
                    (spelled(f"max({value}) OVER ({by})", type_), type_),
                    (f"count({value}) OVER ({by}{ordered})", "bigint"),
                    (f"count(*) OVER ({by}ORDER BY {total} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "bigint"),
                    (f"sum({counted}) OVER ({by}ORDER BY {total} ROWS UNBOUNDED PRECEDING)", "bigint"),
                    (f"sum({counted}) OVER ({by}{ordered})", "bigint"),
                    (f"last_value({missing}, true) OVER ({by}ORDER BY {total} ROWS UNBOUNDED PRECEDING)", shifted),
                    (f"lag({missing}) IGNORE NULLS OVER ({by}ORDER BY {total})", shifted),
                ]
            )
        )
        items.append(Output(_cast(function, found), found))
    text = f"SELECT {', '.join(f'{o.text} AS c{i}' for i, o in enumerate(items))} FROM {source}{_where(draw, columns)}"
    if draw(st.booleans()) and items[-1].type == "bigint":
        text = f"SELECT * FROM ({text}) WHERE c{len(items) - 1} <= {draw(st.integers(1, 3))}"
    return _Block(text, text, tuple(items))


def _set(parts: Sequence[_Block], operator: str) -> _Block:
    text = f" {operator} ".join(p.text for p in parts)
    return _Block(text, text, parts[0].outputs)


def _where(draw: DrawFn, columns: Sequence[Column]) -> str:
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return f" WHERE {condition(draw, columns, may_move=True)}"
        case 2:
            asked = _asked(draw, columns)
            shapes = (asked, f"NOT ({asked})", f"{asked} OR {condition(draw, columns, 1)}")
            return f" WHERE {draw(st.sampled_from(shapes))}"
    return ""


def _asked(draw: DrawFn, columns: Sequence[Column]) -> str:
    """A condition with a sub-query of one table, correlated or not."""
    table = draw(st.sampled_from(TABLES))
    inner = _columns("e")
    type_ = draw(
        st.sampled_from(
            sorted({c.type for c in columns} & {"bigint", "string", "date", "decimal", "collated"}) or [KEY]
        )
    )
    value, other = scalar(draw, columns, type_, 0), scalar(draw, inner, type_, 0)
    some = condition(draw, inner, 1)
    match draw(st.sampled_from(["in", "exists", "exists alone", "scalar", "count"])):
        case "in":
            return f"{value} IN (SELECT {other} FROM {table} AS e WHERE {some})"
        case "exists":
            more = draw(st.sampled_from(["", f" AND {some}"]))
            return f"EXISTS (SELECT 1 FROM {table} AS e WHERE {other} = {value}{more})"
        case "exists alone":
            return f"EXISTS (SELECT 1 FROM {table} AS e WHERE {some})"
        case "scalar":
            return (
                f"{value} >= (SELECT {draw(st.sampled_from(['min', 'max']))}({other}) FROM {table} AS e WHERE {some})"
            )
    return f"(SELECT count(*) FROM {table} AS e WHERE {other} = {value}) < {draw(st.integers(0, 3))}"


def _in_scope(kind: str, right: list[Column]) -> list[Column]:
    """What a join adds to the columns in scope."""
    return [] if kind in {"LEFT SEMI JOIN", "LEFT ANTI JOIN"} else right


def _from(draw: DrawFn, depth: int = 1) -> tuple[str, list[Column]]:
    """One to four relations joined, with the columns in scope."""
    text, columns = _relation(draw, 0, depth)
    for n in range(1, draw(st.sampled_from([1, 1, 2, 2, 2, 3, 4]))):
        other, found = _relation(draw, n, depth)
        kind = draw(st.sampled_from(JOINS))
        text += f" {kind} {other} ON {_on(draw, columns, found)}"
        columns = columns + _in_scope(kind, found)
    return text, columns


def _on(draw: DrawFn, left: Sequence[Column], right: Sequence[Column]) -> str:
    """An equality of keys, null-safe or not, or an inequality; sometimes with more conjuncts of either side."""
    type_ = KEY if draw(st.integers(0, 4)) else draw(st.sampled_from(["string", "date", "bigint", "collated"]))
    a, b = (scalar(draw, side, type_, 0) for side in (left, right))
    operator = draw(st.sampled_from(["=", "=", "=", "<=>", "<"]))
    parts = [f"{a} {operator} {b}"]
    if operator == "<":
        # Bounded, so that a chain of such joins stays small.
        parts.append(f"{b} <= {literal(draw, type_)}")
    if draw(st.integers(0, 3)) == 0:
        parts.append(condition(draw, [*left, *right], 1))
    return " AND ".join(parts)


def _relation(draw: DrawFn, n: int, depth: int) -> tuple[str, list[Column]]:
    if depth > 0 and draw(st.integers(0, 4)) == 0:
        inner = _nested(draw)
        return f"({inner.text}) AS r{n}", [Column(f"r{n}.c{i}", o.type) for i, o in enumerate(inner.outputs)]
    table = draw(st.sampled_from((*TABLES, *TABLES, *PLAIN_VIEWS)))
    return f"{table} AS r{n}", _columns(f"r{n}")


def _columns(alias: str) -> list[Column]:
    """The columns of a table in scope."""
    found = {c: f"{alias}.{c}" for c in COLUMNS}
    return [Column(f"({found[c]} COLLATE {SAME})" if t == "collated" else found[c], t) for c, t in COLUMNS.items()]


def _nested(draw: DrawFn) -> _Block:
    """A sub-query: groups, by the type of join keys every other time, or rows."""
    source, columns = _from(draw, 0)
    if draw(st.booleans()):
        by = [KEY] if draw(st.booleans()) else None
        return _aggregate(draw, source, columns, exact=True, by=by)
    return _select_from(draw, source, columns, [KEY, *(draw(st.sampled_from(EVERY)) for _ in range(2))])


def _cast(text: str, type_: str) -> str:
    """Branches of a union and columns of a view have one type each."""
    match type_:
        case "decimal":
            return f"CAST({text} AS DECIMAL(12, 2))"
        case "bigint":
            return f"CAST({text} AS BIGINT)"
    return text
