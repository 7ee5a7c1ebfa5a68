"""What a rule is: a pattern, a body, and three kinds of results.

A rule file holds one function:

    @rule(Join, kind="inner")
    def inner_join(m: Match[Join]) -> Iterator[Result]:
        yield m.delta(...)

The function's name is the rule's name, its file's name and its toggle; the folder is its pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar, get_args, overload

from tidemill.plan.kinds import JoinKind
from tidemill.plan.ops import Join, QueryOp, Scan
from tidemill.rule.match import Match
from tidemill.rule.result import Result

A = TypeVar("A", bound=QueryOp)
B = TypeVar("B", bound=QueryOp)
C = TypeVar("C", bound=QueryOp)
D = TypeVar("D", bound=QueryOp)
DERIVED: tuple[type[QueryOp], ...] = tuple(operator for operator in get_args(QueryOp) if operator is not Scan)
"""The operators that make a relation of others: for rules that hold whatever the operator is."""
Body: TypeAlias = Callable[[Match[A]], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as the engine sees it.

    Attributes:
        operators: relations written with one of them match, where their fields have one of the values of `where`.
        basic: it is applied to all there is, however long that takes, as are all rules of its pack.
    """

    name: str
    pack: str
    operators: tuple[type[QueryOp], ...]
    body: Body[Any]
    doc: str
    where: tuple[tuple[str, frozenset[str]], ...] = ()
    basic: bool = False

    def matches(self, op: QueryOp) -> bool:
        """True if the rule is about relations that are written with this operator."""
        return isinstance(op, self.operators) and all(getattr(op, field) in values for field, values in self.where)


@overload
def rule(operator: type[Join], /, *, kind: JoinKind | Set[JoinKind]) -> Callable[[Body[Join]], Rule]: ...


@overload
def rule(a: type[A], /) -> Callable[[Body[A]], Rule]: ...


@overload
def rule(a: type[A], b: type[B], /) -> Callable[[Body[A | B]], Rule]: ...


@overload
def rule(a: type[A], b: type[B], c: type[C], /) -> Callable[[Body[A | B | C]], Rule]: ...


@overload
def rule(a: type[A], b: type[B], c: type[C], d: type[D], /) -> Callable[[Body[A | B | C | D]], Rule]: ...


@overload
def rule(*operators: type[QueryOp]) -> Callable[[Body[QueryOp]], Rule]: ...


def rule(*operators: type[Any], **where: str | Set[str]) -> Callable[[Body[Any]], Rule]:
    """Declare a rule that matches relations written with one of these operators.

    Args:
        where: values of the operators' fields: one, or a set of which each will do.
    """
    for operator in operators:
        unknown = where.keys() - {field.name for field in fields(operator)}
        if unknown:
            raise TypeError(f"{operator.__name__} has no field {', '.join(sorted(unknown))}")
    wanted = tuple((f, frozenset({v} if isinstance(v, str) else v)) for f, v in where.items())

    def declare(body: Body[Any]) -> Rule:
        parts = body.__module__.split(".")
        pack = parts[-2] if len(parts) > 1 else ""
        return Rule(body.__name__, pack, operators, body, body.__doc__ or "", wanted)

    return declare
