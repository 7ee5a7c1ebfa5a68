"""Column ids and types: those of the query, and those that rewriting adds (one id per role)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tidemill.plan.expr import Cast, Col, Evaluate, Expr, Fn, Handle, Lit, Timed
from tidemill.plan.query import Query


class ColumnIds:
    """The columns of one planning call.

    Rewriting asks for a column by its role. So a rule that runs twice builds the same plan twice, and the memo
    recognises it.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._types = {c.id: c.type for c in query.columns.values()}
        self._names = {c.id: c.name for c in query.columns.values()}
        self._roles: dict[Hashable, int] = {}

    def fresh(self, role: Hashable, kind: str, name: str) -> int:
        """The column of a role, created at first use; `kind` is its type, `name` its name for people."""
        if role not in self._roles:
            number = max(self._types, default=-1) + 1
            self._roles[role] = number
            self._types[number] = kind
            self._names[number] = name
        return self._roles[role]

    def type(self, column: int) -> str:
        """Spark's JSON type of a column, as text."""
        return self._types[column]

    def name(self, column: int) -> str:
        """The name of a column; not unique."""
        return self._names[column]

    def type_of(self, expr: Expr) -> str:
        """The type of an expression, where the planner can tell.

        Raises:
            TypeError: for a function call, whose type only the analyser knows.
        """
        match expr:
            case Col(number):
                return self._types[number]
            case Handle(number) | Timed(number, _) | Evaluate(number, _):
                return self._query.expressions[number].type
            case Lit(_, kind) | Cast(_, kind):
                return kind
            case Fn(name, _):
                raise TypeError(f"the type of a call of {name} is left to the analyser")

    def snapshot(self) -> Mapping[int, str]:
        """All types by column id."""
        return dict(self._types)
