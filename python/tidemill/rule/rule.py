"""What a rule is: a pattern, a body, and three kinds of results.

A rule file holds one function:

    @rule(Filter, Project, Union)
    def linear(m: Match) -> Iterator[Result]:
        yield m.delta(node(m.op, *(i.delta for i in m.inputs)))

The function's name is the rule's name, its file's name and its toggle; the folder is its pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidemill.rule.match import Match
from tidemill.rule.result import Result

Body: TypeAlias = Callable[[Match], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as the engine sees it."""

    name: str
    pack: str
    operators: tuple[type, ...]
    body: Body
    doc: str


def rule(*operators: type) -> Callable[[Body], Rule]:
    """Declare a rule that matches relations written with one of these operators."""

    def declare(body: Body) -> Rule:
        parts = body.__module__.split(".")
        return Rule(body.__name__, parts[-2] if len(parts) > 1 else "", operators, body, body.__doc__ or "")

    return declare
