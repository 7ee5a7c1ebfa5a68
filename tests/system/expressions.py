"""Random well-typed scalar and aggregate expressions over columns, as functions of hypothesis' `draw`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

TYPES = ("bigint", "string", "decimal", "double", "date", "collated")
"""Types that Spark compares."""
GROUPS = (*TYPES, "mapped")
"""Types that Spark groups by."""
EVERY = (*GROUPS, "variant")
SAME = "UTF8_LCASE"
"""The collation of texts of type `collated`; `lower` gives one spelling of all that are equal."""
KEY = "bigint"
"""Type of the join keys: few values, one of them frequent, NULL among them."""

LITERALS = {
    "bigint": ("0", "1", "2", "3", "-1", "7"),
    "string": ("'a'", "'b'", "''", "'ab'"),
    "decimal": ("0.00BD", "1.50BD", "-2.25BD", "99.99BD"),
    "double": ("0D", "1D", "-0.5D", "1e16D"),
    "date": ("DATE'2024-01-01'", "DATE'2024-02-29'", "DATE'2025-12-31'"),
    "collated": tuple(f"{text} COLLATE {SAME}" for text in ("'a'", "'A'", "'B'", "''")),
    "mapped": tuple(
        f"named_struct('m', map({entries}), 'at', TIMESTAMP_NTZ'2024-01-01 00:00:00.{digits}')"
        for entries, digits in (
            ("'x', TIMESTAMP_NTZ'2024-01-01 00:00:00.123456', 'y', NULL", "000001"),
            ("'y', NULL, 'x', TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", "000001"),
            ("'x', TIMESTAMP_NTZ'2024-01-01 00:00:00.123999'", "000001"),
            ("'x', TIMESTAMP_NTZ'2024-01-01 00:00:00.123999'", "000002"),
        )
    ),
    "variant": tuple(
        f"named_struct('v', parse_json('{text}'), 'at', TIMESTAMP_NTZ'2024-01-01 00:00:00.{digits}')"
        for text, digits in (('{"a": [1], "b": null}', "123456"), ('{"b":null,"a":[1]}', "123456"), ("1", "123999"))
    ),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column in scope: `text` as it is written there; type one of EVERY."""

    text: str
    type: str


@dataclass(frozen=True, slots=True)
class Output:
    """An item of a select list; `scale`: what the value's error is measured against, None if the value is exact."""

    text: str
    type: str
    scale: str | None = None


def literal(draw: DrawFn, type_: str) -> str:
    return draw(st.sampled_from(LITERALS[type_]))


def scalar(draw: DrawFn, columns: Sequence[Column], type_: str, depth: int = 2) -> str:
    """An expression of `type_`; mostly a column."""
    fitting = [c.text for c in columns if c.type == type_]
    simple = fitting or [literal(draw, type_)]
    if depth == 0 or draw(st.integers(0, 2)) > 0:
        return draw(st.sampled_from(simple))

    def again(other: str = type_) -> str:
        return scalar(draw, columns, other, depth - 1)

    shapes = ["coalesce", "case", "if", *(["nullif", "own"] if type_ in TYPES else [])]
    match draw(st.sampled_from(shapes)):
        case "coalesce":
            return f"coalesce({again()}, {literal(draw, type_)})"
        case "case":
            return f"CASE WHEN {condition(draw, columns, depth - 1)} THEN {again()} ELSE {again()} END"
        case "if":
            return f"if({condition(draw, columns, depth - 1)}, {again()}, NULL)"
        case "nullif":
            return f"nullif({again()}, {literal(draw, type_)})"
    match type_:
        case "bigint":
            other = again("string")
            return draw(
                st.sampled_from([f"({again()} + 1)", f"(-({again()}))", f"length({other})", f"({again()} % 3)"])
            )
        case "string":
            own = [
                f"upper({again()})",
                f"concat({again()}, 'x')",
                f"substr({again()}, 1, 1)",
                f"CAST({again('collated')} AS STRING)",
            ]
            return draw(st.sampled_from(own))
        case "collated":
            return draw(st.sampled_from([f"concat({again()}, 'x')", f"substr({again()}, 1, 1)"]))
        case "decimal":
            return f"CAST({again()} * 2 AS DECIMAL(12, 2))"
        case "double":
            return draw(st.sampled_from([f"({again()} * 0.5D)", f"(-({again()}))", f"abs({again()})"]))
        case _:
            return f"date_add({again()}, 1)"


def spelled(text: str, type_: str) -> str:
    """One spelling where Spark may give any of those that are equal."""
    return f"lower({text})" if type_ == "collated" else text


def order(column: Column) -> str:
    """What tells apart all values of a column, in an ORDER BY."""
    match column.type:
        case "collated":
            return f"CAST({column.text} AS STRING)"
        case "mapped":
            entries = f"CAST(array_sort(map_entries({column.text}.m)) AS STRING)"
            return f"{entries}, CAST({column.text}.at AS STRING)"
        case "variant":
            return f"to_json({column.text}.v), CAST({column.text}.at AS STRING)"
    return column.text


def condition(draw: DrawFn, columns: Sequence[Column], depth: int = 2, *, may_move: bool = False) -> str:
    """A condition over the columns, of three-valued logic. `may_move`: it may compare dates with today."""
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        left, right = (condition(draw, columns, depth - 1, may_move=may_move) for _ in range(2))
        return draw(st.sampled_from([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"]))
    type_ = draw(st.sampled_from(sorted({c.type for c in columns}) or ["bigint"]))
    value = scalar(draw, columns, type_, max(0, depth - 1))
    shapes = ["compare", "compare", "null", "in", "between", "same"] if type_ in TYPES else ["null"]
    match draw(st.sampled_from(shapes)):
        case "null":
            return f"{value} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case "in":
            return f"{value} IN ({literal(draw, type_)}, {literal(draw, type_)})"
        case "between":
            return f"{value} BETWEEN {literal(draw, type_)} AND {literal(draw, type_)}"
        case "same":
            return f"{value} <=> {draw(st.sampled_from([literal(draw, type_), 'NULL']))}"
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    if may_move and type_ == "date":
        return f"{value} {operator} current_date() - {draw(st.sampled_from([0, 1, 7]))}"
    return f"{value} {operator} {literal(draw, type_)}"


AGGREGATES = ("count", "count_all", "count_distinct", "sum", "avg", "min", "max", "stddev", "variance")


def aggregate(draw: DrawFn, columns: Sequence[Column], *, exact: bool) -> Output:
    """An aggregate call. `exact`: only one whose value does not depend on the order of the rows."""
    name = draw(st.sampled_from(AGGREGATES))
    if exact and name in {"stddev", "variance"}:
        name = "max"
    filtered = f" FILTER (WHERE {condition(draw, columns, 1, may_move=True)})" if draw(st.integers(0, 7)) == 0 else ""
    if name == "count_all":
        return Output(f"count(*){filtered}", "bigint")
    numeric = ["bigint", "decimal"] if exact else ["bigint", "decimal", "double"]
    if name in {"sum", "avg", "stddev", "variance"}:
        type_ = draw(st.sampled_from(numeric))
    else:
        some = EVERY if name == "count" else TYPES
        type_ = draw(st.sampled_from([t for t in some if any(c.type == t for c in columns)] or ["bigint"]))
    value = scalar(draw, columns, type_, 1)
    match name:
        case "count":
            return Output(f"count({value}){filtered}", "bigint")
        case "count_distinct":
            return Output(f"count(DISTINCT {value}){filtered}", "bigint")
        case "min" | "max":
            return Output(spelled(f"{name}({value}){filtered}", type_), type_)
    absolute = f"sum(if(CAST({value} AS DOUBLE) IN (double('NaN'), double('inf'), double('-inf')), 0D, "
    absolute += f"abs(CAST({value} AS DOUBLE)))){filtered}"
    if name in {"stddev", "variance"}:
        function = draw(
            st.sampled_from([f"{name}_samp", f"{name}_pop"] if name == "stddev" else ["var_samp", "var_pop"])
        )
        return Output(
            f"{function}({value}){filtered}", "double", absolute if name == "stddev" else f"pow({absolute}, 2)"
        )
    if type_ == "bigint":
        if name == "sum":
            return Output(f"sum({value}){filtered}", "bigint")
        return Output(f"avg({value}){filtered}", "double", None if exact else absolute)  # sums of few small numbers
    if type_ == "decimal":
        return Output(f"CAST({name}({value}){filtered} AS DECIMAL(12, 2))", "decimal")
    return Output(f"{name}({value}){filtered}", "double", absolute)
