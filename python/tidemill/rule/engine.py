"""The rule engine: one worklist, budgets, and a reason for having stopped (style.md 12 to 14)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.memo.memo import Memo
from tidemill.plan.normal import normalise
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Linked, NewForm
from tidemill.rule.rule import Rule
from tidemill.tvr.form import Link


class RuleFailedError(Exception):
    """A rule raised; the message names the rule and the relation."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds on exploration: wall seconds and the number of groups."""

    seconds: float = 10.0
    groups: int = 20_000


@dataclass(frozen=True, slots=True)
class Explored:
    """What exploration did, and why it stopped: "saturated", "time limit" or "group limit"."""

    rules_fired: int
    seconds: float
    stopped: str


def explore(
    memo: Memo,
    rules: Sequence[Rule],
    budget: Budget,
    checked: Callable[[Memo], None] | None = None,
) -> Explored:
    """Apply every rule to every way of writing every relation, those that rules add included, once each.

    Args:
        memo: holding the query's relations already.
        rules: in the order in which they are tried.
        budget: checked between two rules.
        checked: called after every rule that changed something (tests pass the invariant check).

    Raises:
        RuleFailedError: if a rule raises.
    """
    started, fired = time.monotonic(), 0
    worklist = deque((t.number, i) for t in memo.tvrs for i in range(len(t.expressions)))
    queued = set(worklist)
    stopped = "saturated"
    while worklist:
        if time.monotonic() - started > budget.seconds:
            stopped = "time limit"
            break
        if len(memo.groups) > budget.groups:
            stopped = "group limit"
            break
        tvr, index = worklist.popleft()
        op, inputs = memo.tvrs[tvr].expressions[index]
        for rule in rules:
            if not isinstance(op, rule.operators):
                continue
            memo.emit("matched", rule.name, tvr)
            if _apply(memo, rule, Match(memo, tvr, op, inputs), tvr):
                fired += 1
                if checked is not None:
                    checked(memo)
        fresh = [(t.number, i) for t in memo.tvrs for i in range(len(t.expressions)) if (t.number, i) not in queued]
        queued.update(fresh)
        worklist.extend(fresh)
    memo.emit("stopped", "", 0, stopped)
    return Explored(fired, time.monotonic() - started, stopped)


def _apply(memo: Memo, rule: Rule, match: Match, tvr: int) -> bool:
    changed = False
    try:
        for result in rule.body(match):
            match result:
                case NewForm(form, built):
                    changed |= memo.add(memo.form(tvr, form), built, rule.name, rule.pack)
                case Equivalent(op, inputs):
                    changed |= memo.equate(tvr, op, inputs)
                case Linked(kind, tree):
                    changed |= memo.link(Link(kind, tvr, memo.register(normalise(tree))))
            memo.emit("applied", rule.name, tvr, type(result).__name__)
    except Exception as error:
        raise RuleFailedError(f"rule {rule.pack}/{rule.name} failed at relation {tvr}: {error}") from error
    return changed
