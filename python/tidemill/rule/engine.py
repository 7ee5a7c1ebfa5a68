"""The rule engine: one worklist, budgets, and a stated reason for stopping."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tidemill.memo.memo import Memo
from tidemill.plan.ops import Scan
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Linked, NewForm, Result, in_words
from tidemill.rule.rule import Rule
from tidemill.tvr.form import KEPT, Link, Span

Way: TypeAlias = tuple[int, int]
"""A relation, and the number of one of the ways to write it."""
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
    """Applies every rule to every way to write every relation, including those that rules add.

    A rule is applied once more where it asked about a relation of which another way to write it, a link or a key became
    known since. So at the end no rule has anything to add, unless the budget is used up: then only the rules of basic
    packs are applied to the rest.

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
    first = [(t.number, i) for t in memo.tvrs for i in range(len(t.expressions))]
    pending: OrderedDict[Way, set[str] | None] = OrderedDict.fromkeys(first)  # by names of rules; None: all
    queued, questions = set(first), _Questions()
    memo.news.clear()
    stopped = Stopped.SATURATED
    while pending:
        if stopped is Stopped.SATURATED:
            if len(memo.groups) > budget.groups:
                stopped = Stopped.GROUP_LIMIT
            elif time.monotonic() > end and missing():
                end = time.monotonic() + max(budget.seconds, LEAST_SECONDS)
            elif time.monotonic() > end:
                stopped = Stopped.TIME_LIMIT
            if stopped is not Stopped.SATURATED:
                rules = [rule for rule in rules if rule.basic]
        way, wanted = pending.popitem(last=False)
        op, _ = memo.tvrs[way[0]].expressions[way[1]]
        for rule in rules:
            if not rule.matches(op) or (wanted is not None and rule.name not in wanted):
                continue
            memo.emit("matched", rule.name, way[0])
            asked = set[int]()
            if _apply(memo, rule, *way, asked):
                fired += 1
                if checked is not None:
                    checked(memo)
            questions.note(way, rule.name, asked)
        found = [(t.number, i) for t in memo.tvrs for i in range(len(t.expressions)) if (t.number, i) not in queued]
        for number, i in found:
            fresh(number, i)
        queued.update(found)
        pending.update(dict.fromkeys(found))
        for other, names in questions.open_again(memo.news):
            known = pending.setdefault(other, names)
            if known is not None:
                known |= names
        memo.news.clear()
    memo.emit("stopped", "", 0, stopped)
    return Explored(fired, time.monotonic() - started, stopped)


class _Questions:
    """Remembers which rule asked about which relation, as answers may come out differently later."""

    def __init__(self) -> None:
        self._asked: dict[int, dict[Way, set[str]]] = {}

    def note(self, way: Way, rule: str, asked: Iterable[int]) -> None:
        """Notes that a rule, applied to a way to write a relation, asked about these relations."""
        for number in asked:
            self._asked.setdefault(number, {}).setdefault(way, set()).add(rule)

    def open_again(self, news: Iterable[int]) -> Iterator[tuple[Way, set[str]]]:
        """Yields the ways, each with the names of the rules, that asked about one of these relations."""
        for number in sorted(news):
            yield from self._asked.pop(number, {}).items()


def _apply(memo: Memo, rule: Rule, tvr: int, index: int, asked: set[int]) -> bool:
    """Applies a rule to one way to write a relation, for every interval; returns True if it found something new.

    `asked`: gets the relations that the rule asked about.

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
                known[alike] = tuple(rule.body(Match(memo, tvr, op, inputs, span, asked)))
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
            return memo.link(Link(kind, tvr, to, pack if kind == KEPT else ""))
