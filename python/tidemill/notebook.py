"""Answers that notebooks show as HTML: a row with its names, and a text as it is laid out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Row


def table(cells: Iterable[tuple[str, Any]]) -> str:
    """Returns an HTML table with a line per name and value; None is NULL."""
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(_shown(value))}</td></tr>" for name, value in cells)
    return f"<table>{''.join(lines)}</table>"


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)


def answer(row: Row) -> Row:
    """Returns the same row of an answer, which notebooks show as a table."""
    found = _answer_class().__new__(_answer_class(), *row)
    found.__fields__ = row.__fields__
    return found


@cache
def _answer_class() -> type[Row]:
    from pyspark.sql import Row  # the package can be imported without Spark

    class Answer(Row):
        """A row of an answer."""

        def _repr_html_(self) -> str:
            return table(self.asDict().items())

    return Answer


class Text(str):
    """A text of several lines, which notebooks show as it is laid out."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"
