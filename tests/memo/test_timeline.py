"""Several moments: each interval has its forms, what stands still is one, rules run once for what is alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tidemill.memo.check import check
from tidemill.memo.memo import Memo
from tidemill.plan.ops import Changes, Filter, Scan
from tidemill.rule.engine import Budget, explore
from tidemill.rule.match import Match
from tidemill.rule.registry import load_rules
from tidemill.rule.result import Result
from tidemill.rule.rule import Rule
from tidemill.search.space.seed import Seeding
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, at, over
from tidemill.tvr.timeline import Sources, Timeline, Transition

QUERY = """\
source 0 t [a: long]
source 1 u [a: long]
filter [(#0 > 3)]
  join inner [(#0 = #1)]
    scan 0 [#0 := a]
    scan 1 [#1 := a]"""
T, U, BOTH = frozenset({0}), frozenset({1}), frozenset({0, 1})


def explored(*steps: Sources, mute: Sources = frozenset(), rules: Sequence[Rule] | None = None) -> Memo:
    memo = Memo(parse_query(QUERY), Timeline(tuple(Transition(s, s - mute) for s in steps)))
    Seeding(memo, len(memo.timeline.steps), lambda _s, _t: False).query(memo.query.root)
    explore(memo, load_rules() if rules is None else rules, Budget(seconds=60), check)
    return memo


def forms(memo: Memo, tvr: int, kind: str) -> set[tuple[int | None, int]]:
    return {
        (f.start, f.end) for f, g in memo.tvrs[tvr].forms.items() if f.kind.name == kind and memo.group(g).expressions
    }


@pytest.mark.parametrize(
    ("steps", "spans"),
    [
        ((BOTH, BOTH, BOTH), {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}),
        ((T, U, T), {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}),
        ((T, frozenset(), U), {(0, 2), (0, 3), (2, 3)}),
        ((frozenset(), T), {(1, 2)}),
    ],
)
def test_each_interval_in_which_something_changes_has_its_delta(
    steps: tuple[Sources, ...], spans: set[tuple[int, int]]
) -> None:
    memo = explored(*steps)
    filtered = len(memo.query.sources) + 1
    assert isinstance(memo.tvrs[filtered].expressions[0][0], Filter)
    assert forms(memo, filtered, "delta") == spans
    assert forms(memo, filtered, "snapshot") == {(None, t) for span in spans for t in span}


def test_a_source_has_the_moments_at_which_it_differs() -> None:
    memo = explored(T, U, T)
    assert memo.form(0, at(SNAPSHOT, 1)) == memo.form(0, at(SNAPSHOT, 2)) != memo.form(0, at(SNAPSHOT, 3))
    assert memo.form(0, over(DELTA, Span(0, 1))) == memo.form(0, over(DELTA, Span(0, 2)))
    read = {e.op for g in memo.live_groups() for e in g.expressions if isinstance(e.op, Changes) and e.op.source == 0}
    assert {(op.start, op.end) for op in read if isinstance(op, Changes)} == {(0, 2), (0, 3), (2, 3)}
    scans = {e.op.at for g in memo.live_groups() for e in g.expressions if isinstance(e.op, Scan) and e.op.source == 1}
    assert scans == {3}  # seeded at the end of the whole only; at step 2 it changed and has no old content to read


def test_a_source_tells_its_changes_where_it_can_in_every_step() -> None:
    line = Timeline((Transition(BOTH, BOTH), Transition(T, frozenset()), Transition(U, U, U)))
    assert [line.telling(Span(0, n)) for n in (1, 2, 3)] == [BOTH, U, U]
    assert [line.mixed(Span(0, n)) for n in (1, 2, 3)] == [frozenset(), T, BOTH]
    assert line.mixed(Span(2, 3)) == U
    memo = Memo(parse_query(QUERY), Timeline((Transition(BOTH, BOTH), Transition(BOTH, U))))
    Seeding(memo, len(memo.timeline.steps), lambda _s, _t: False).query(memo.query.root)
    explore(memo, load_rules(), Budget(seconds=60), check)
    assert forms(memo, 0, "delta") == {(0, 1)}
    assert forms(memo, 1, "delta") == {(0, 1), (0, 2), (1, 2)}


def test_a_rule_runs_once_for_intervals_that_are_alike() -> None:
    runs: Counter[str] = Counter()

    def counted(rule: Rule) -> Rule:
        def body(m: Match[Any]) -> Iterator[Result]:
            runs[rule.name] += 1
            return rule.body(m)

        return replace(rule, body=body)

    rules = [counted(r) for r in load_rules()]
    explored(BOTH, rules=rules)
    one = dict(runs)
    runs.clear()
    explored(BOTH, BOTH, BOTH, BOTH, rules=rules)
    # In an interval of several steps a row may come and go, which rules of scans may ask for.
    assert runs == Counter({**one, **{rule.name: 2 * one[rule.name] for rule in rules if Scan in rule.operators}})
