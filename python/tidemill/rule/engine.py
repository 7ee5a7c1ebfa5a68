"""The rule engine: one worklist, budgets, and a stated reason for stopping."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidemill.memo.memo import Memo
from tidemill.plan.ops import Scan
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Linked, NewForm, Result, in_words
from tidemill.rule.rule import Rule
from tidemill.tvr.form import Link, Span

LEAST_SECONDS = 1.0
"""Shortest extension of exploration while something that must be found is missing."""


class Stopped(StrEnum):
    """Reasons why a search stopped."""

    SATURATED = "saturated"
    """No rule yields anything new."""
    TIME_LIMIT = "time limit"
    GROUP_LIMIT = "group limit"


class RuleFailedError(Exception):
    """A rule raised an exception; the message names the rule and the relation."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds on exploration: wall seconds and the number of groups."""

    seconds: float = 10.0
    groups: int = 20_000


@dataclass(frozen=True, slots=True)
class Explored:
    """The outcome of exploration, and why it stopped."""

    rules_fired: int
    seconds: float
    stopped: Stopped


def explore(
    memo: Memo,
    rules: Sequence[Rule],
    budget: Budget,
    checked: Callable[[Memo], None] | None = None,
    fresh: Callable[[int, int], None] = lambda _tvr, _index: None,
    missing: Callable[[], bool] = lambda: False,
) -> Explored:
    """Applies every rule once to every way to write every relation, including those that rules add.

    When the budget is used up, only the rules of basic packs are applied to the rest.

    Args:
        memo: already has the query's relations.
        rules: in the order in which they are tried.
        budget: checked before each way to write a relation.
        checked: called after every rule that changed something (tests pass the invariant check).
        fresh: called for every new way to write a relation, before rules are applied to it.
        missing: returns True while something that must be found is missing; asked when time is up, and if so time
            starts anew.

    Raises:
        RuleFailedError: if a rule raises.
    """
    started, fired = time.monotonic(), 0
    end = started + budget.seconds
    worklist = deque((t.number, i) for t in memo.tvrs for i in range(len(t.expressions)))
    queued = set(worklist)
    stopped = Stopped.SATURATED
    while worklist:
        if stopped is Stopped.SATURATED:
            if len(memo.groups) > budget.groups:
                stopped = Stopped.GROUP_LIMIT
            elif time.monotonic() > end and missing():
                end = time.monotonic() + max(budget.seconds, LEAST_SECONDS)
            elif time.monotonic() > end:
                stopped = Stopped.TIME_LIMIT
            if stopped is not Stopped.SATURATED:
                rules = [rule for rule in rules if rule.basic]
        tvr, index = worklist.popleft()
        op, _ = memo.tvrs[tvr].expressions[index]
        for rule in rules:
            if not rule.matches(op):
                continue
            memo.emit("matched", rule.name, tvr)
            if _apply(memo, rule, tvr, index):
                fired += 1
                if checked is not None:
                    checked(memo)
        found = [(t.number, i) for t in memo.tvrs for i in range(len(t.expressions)) if (t.number, i) not in queued]
        for number, i in found:
            fresh(number, i)
        queued.update(found)
        worklist.extend(found)
    memo.emit("stopped", "", 0, stopped)
    return Explored(fired, time.monotonic() - started, stopped)


def _apply(memo: Memo, rule: Rule, tvr: int, index: int) -> bool:
    """Applies a rule to one way to write a relation, for every interval; returns True if it found something new.

    A rule's result depends only on what changes within the interval (Tempura 5.4, translational symmetry). So its body
    runs once for all equal intervals, and its results are placed at the times of each.
    """
    began, results = time.perf_counter(), list[tuple[Span, Result, bool]]()
    op, inputs = memo.tvrs[tvr].expressions[index]
    # A result that another rule's way to write the relation made possible counts for that rule's pack.
    _, pack = memo.tvrs[tvr].found[index] or (rule.name, rule.pack)
    known: dict[object, tuple[Result, ...]] = {}
    try:
        for span in tuple(memo.spans(tvr)):
            alike = _what_happens(memo, tvr, span)
            if alike not in known:
                known[alike] = tuple(rule.body(Match(memo, tvr, op, inputs, span)))
            for result in known[alike]:
                results.append((span, result, _add(memo, rule, pack, tvr, span, result)))
    except Exception as error:
        raise RuleFailedError(f"rule {rule.pack}/{rule.name} failed at relation {tvr}: {error}") from error
    changed = any(new for _, _, new in results)
    if memo.heard:
        memo.emit("tried", rule.name, tvr, new=changed, seconds=time.perf_counter() - began)
        for span, result, new in results:
            memo.emit("applied", rule.name, tvr, in_words(memo, tvr, span, result), new=new)
    return changed


def _what_happens(memo: Memo, tvr: int, span: Span) -> object:
    """All that a rule can ask about an interval: the sources that change below, those that no row leaves, and for a
    scan the kind of change."""
    below, line = memo.tvrs[tvr].props.sources, memo.timeline
    if not isinstance(memo.tvrs[tvr].expressions[0][0], Scan):
        return below & line.changed(span), below & line.growing(span)
    return tuple(below & kind(span) for kind in (line.changed, line.growing, line.telling, line.mixed))


def _add(memo: Memo, rule: Rule, pack: str, tvr: int, span: Span, result: Result) -> bool:
    match result:
        case NewForm(form, built):
            return memo.add(memo.form(tvr, form.placed(span)), built, rule.name, pack, span)
        case Equivalent(op, inputs):
            return memo.equate(tvr, op, inputs, rule.name, rule.pack)
        case Linked(kind, to):
            return memo.link(Link(kind, tvr, to))
