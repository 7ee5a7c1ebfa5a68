"""One line of the plan text format: its tokens, lists, types and expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from tidemill.plan.datatype import type_from_text
from tidemill.plan.expr import Cast, Col, Expr, Fn, Lit
from tidemill.text.printer import DISTINCT, INFIX, WHERE

T = TypeVar("T")
_TOKEN = re.compile(r"\s*(#\d+|\d+\.\d+|\d+|'(?:[^']|'')*'|[A-Za-z_][\w.]*|:=|<=>|<=|>=|<|>|=|[-+*/()\[\],:;{}\"])")


class PlanSyntaxError(ValueError):
    """Text that is no plan; the message holds the offending line."""


class Line:
    """The tokens of one line, and the expressions in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error(f"unexpected {text[at:].strip()[:10]!r}")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def error(self, what: str) -> PlanSyntaxError:
        """What is wrong, with the line."""
        return PlanSyntaxError(f"{what} in: {self.text.strip()}")

    def peek(self, ahead: int = 0) -> str:
        """A token that is not taken yet; empty at the end."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def next(self) -> str:
        """Takes a token; an error at the end."""
        token = self.peek()
        if not token:
            raise self.error("something is missing at the end")
        self._at += 1
        return token

    def accept(self, *tokens: str) -> bool:
        """Takes these tokens if they come next."""
        if [self.peek(i) for i in range(len(tokens))] == list(tokens):
            self._at += len(tokens)
            return True
        return False

    def expect(self, *tokens: str) -> None:
        """Takes these tokens; an error if others come."""
        if not self.accept(*tokens):
            raise self.error(f"expected {' '.join(tokens)} before {self.peek() or 'the end'!r}")

    def end(self) -> None:
        """An error if anything is left."""
        if self.peek():
            raise self.error(f"unexpected {self.peek()!r}")

    def column(self) -> int:
        """`#id`."""
        token = self.next()
        if not token.startswith("#"):
            raise self.error(f"expected a column, not {token!r}")
        return int(token[1:])

    def number(self) -> int:
        """A whole number."""
        token = self.next()
        if not token.isdigit():
            raise self.error(f"expected a number, not {token!r}")
        return int(token)

    def items(self, element: Callable[[], T]) -> list[T]:
        """`[element, ...]`; `element` is a method of this class."""
        self.expect("[")
        found: list[T] = []
        while not self.accept("]"):
            if found:
                self.expect(",")
            found.append(element())
        return found

    def field(self) -> list[Any]:
        """`#id := field`."""
        column = self.column()
        self.expect(":=")
        return [column, self.next()]

    def typed(self) -> list[Any]:
        """`name: type`, as in a source's fields."""
        name = self.next()
        self.expect(":")
        return [name, type_from_text(self.type()), True]

    def type(self) -> str:
        """A primitive type."""
        name = self.next()
        if not self.accept("("):
            return name
        inside = []
        while not self.accept(")"):
            inside.append(self.next())
        return f"{name}({''.join(inside)})"

    def named(self) -> tuple[int, Expr]:
        """`#id := expression`, or `#id` for a column that stays."""
        column = self.column()
        return (column, self.expr()) if self.accept(":=") else (column, Col(column))

    def sort_key(self) -> tuple[Expr, bool, bool]:
        """`expression asc nulls first`."""
        expr = self.expr()
        ascending = not self.accept("desc")
        if ascending:
            self.accept("asc")
        first = ascending
        if self.accept("nulls"):
            first = self.next() == "first"
        return expr, ascending, first

    def expr(self, level: int = 0) -> Expr:
        """An expression whose infix operators bind at least as strongly as `level`."""
        left = self._primary()
        while self.peek() in INFIX and INFIX[self.peek()] >= level:
            operator = self.next()
            left = Fn(operator, (left, self.expr(INFIX[operator] + 1)))
        return left

    def _primary(self) -> Expr:
        token = self.next()
        if token.startswith("#"):
            return Col(int(token[1:]))
        if token == "-":
            inner = self._primary()
            if isinstance(inner, Lit) and isinstance(inner.value, int | float):
                return Lit(-inner.value, inner.type)
            return Fn("negative", (inner,))
        if token[0].isdigit():
            return Lit(float(token), "double") if "." in token else Lit(int(token), "long")
        if token.startswith("'"):
            return Lit(token[1:-1].replace("''", "'"), "string")
        if token == "(":
            inner = self.expr()
            self.expect(")")
            return inner
        if token in {"true", "false"}:
            return Lit(token == "true", "boolean")
        if token == "NULL":
            return Lit(None, "void")
        self.expect("(")
        if token == "cast":
            inner = self.expr()
            self.expect("as")
            kind = self.type()
            self.expect(")")
            return Cast(inner, kind)
        return self._call(token)

    def _call(self, name: str) -> Expr:
        args: list[Expr] = []
        if name == "count" and self.accept("*"):
            args.append(Lit(1, "integer"))
        distinct = self.accept("distinct")
        while not self.accept(")"):
            if args:
                self.accept(",")
            if self.peek() == ")":
                continue
            args.append(self.expr())
        call = Fn(name, (Fn(DISTINCT, tuple(args)),) if distinct else tuple(args))
        return Fn(WHERE, (call, self._primary())) if self.accept("filter") else call
