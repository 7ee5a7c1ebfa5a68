"""Invariants of the memo, asserted after every rule in tests."""

from __future__ import annotations

from tidemill.memo.memo import Memo


def check(memo: Memo) -> None:
    """Asserts that the memo is sound.

    Raises:
        AssertionError: names the invariant that does not hold.
    """
    seen: dict[object, int] = {}
    for group in memo.live_groups():
        for e in group.expressions:
            assert all(memo.find(i) == i for i in e.inputs), f"group {group.number} points at a merged group"
            key = (e.op, e.inputs)
            assert seen.setdefault(key, group.number) == group.number, f"{type(e.op).__name__} stands in two groups"
            assert e.rule, f"group {group.number} holds an expression of no rule"
            assert e.pack, f"group {group.number} holds an expression of no pack"
    for tvr in memo.tvrs:
        for form, number in tvr.forms.items():
            assert memo.find(number) is not None
            times = {form.end} if form.start is None else {form.start, form.end}
            assert times <= set(memo.timeline.moments), f"{form} lies outside the timeline"
        for _, inputs in tvr.expressions:
            assert all(i < len(memo.tvrs) for i in inputs), f"relation {tvr.number} has an unknown input"
