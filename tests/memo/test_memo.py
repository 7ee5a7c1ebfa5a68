"""The memo: interning, merging, forms at moments, invariants."""

from __future__ import annotations

import pytest

from tidemill.memo.check import check
from tidemill.memo.events import Event
from tidemill.memo.memo import Expression, Memo, Node, Ref
from tidemill.plan.ops import Empty, Negate, Net, Scan, Sum
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, NEW, OLD, SNAPSHOT, Link, at
from tidemill.tvr.timeline import Timeline, Transition

TEXT = """\
source 0 t [a: long]
source 1 u [a: long]
join inner [(#0 = #1)]
  scan 0 [#0 := a]
  scan 1 [#1 := a]"""


def memo(events: list[Event] | None = None) -> Memo:
    query = parse_query(TEXT)
    readers = [events.append] if events is not None else []
    found = Memo(query, Timeline((Transition(frozenset({0}), frozenset({0})),)), readers)
    found.register(query.root)
    return found


def scan(source: int) -> Node:
    return Node(Scan(source, ((source, "a"),), NEW))


def test_a_tree_is_registered_once() -> None:
    found = memo()
    assert len(found.tvrs) == 3
    assert found.register(found.query.root) == 2
    assert len(found.tvrs) == 3
    assert [found.changed(t.number) for t in found.tvrs] == [True, False, True]


def test_what_did_not_change_has_one_moment() -> None:
    found = memo()
    assert found.moment(1, SNAPSHOT, old=True) == found.moment(1, SNAPSHOT, old=False)
    assert found.moment(0, SNAPSHOT, old=True) != found.moment(0, SNAPSHOT, old=False)


def test_the_same_work_is_found_to_be_the_same() -> None:
    found = memo()
    group, other = found.change(0, DELTA), found.change(2, DELTA)
    assert found.add(group, Node(Net((0,)), (Node(Negate(), (scan(0),)),)), "r", "p")
    assert not found.add(group, Node(Net((0,)), (Node(Negate(), (scan(0),)),)), "r", "p")
    before = len(found.groups)
    found.add(other, Node(Sum(), (Node(Negate(), (scan(0),)), scan(0))), "r", "p")
    assert len(found.groups) == before  # both inner nodes were known
    check(found)


def test_groups_with_one_expression_in_common_merge_and_so_do_their_users() -> None:
    events: list[Event] = []
    found = memo(events)
    old, new = found.moment(0, SNAPSHOT, old=True), found.moment(0, SNAPSHOT, old=False)
    a, b = found.change(0, DELTA), found.change(2, DELTA)
    found.add(a, Node(Negate(), (Ref(0, at(SNAPSHOT, OLD)),)), "r", "p")
    found.add(b, Node(Negate(), (Ref(0, at(SNAPSHOT, NEW)),)), "r", "p")
    assert found.find(a) != found.find(b)
    found.add(old, scan(0), "r", "p")
    found.add(new, scan(0), "r", "p")
    assert found.find(old) == found.find(new)
    assert found.find(a) == found.find(b)
    assert [e.kind for e in events].count("merged") == 1
    check(found)


def test_a_reference_merges() -> None:
    found = memo()
    old, new = found.moment(0, SNAPSHOT, old=True), found.moment(0, SNAPSHOT, old=False)
    assert found.add(old, Ref(0, at(SNAPSHOT, NEW)), "r", "p")
    assert not found.add(old, Ref(0, at(SNAPSHOT, NEW)), "r", "p")
    assert found.group(old) is found.group(new)
    check(found)


def test_another_way_to_write_a_relation_and_a_link_are_kept_once() -> None:
    found = memo()
    op, inputs = found.tvrs[2].expressions[0]
    assert not found.equate(2, op, inputs)
    assert found.equate(2, op, (1, 0))
    assert found.relation(op, (1, 0)) == 2
    assert found.link(Link("positive", 0, 1))
    assert not found.link(Link("positive", 0, 1))


def test_the_check_finds_what_is_broken() -> None:
    found = memo()
    group, other = found.change(0, DELTA), found.change(2, DELTA)
    found.groups[group].expressions.append(Expression(Empty((0,), True), (), "r", "p"))
    check(found)
    found.groups[other].expressions.append(Expression(Empty((0,), True), (), "r", "p"))
    with pytest.raises(AssertionError, match="stands in two groups"):
        check(found)
    found = memo()
    found.groups[found.change(0, DELTA)].expressions.append(Expression(Empty((0,), True), (), "", "p"))
    with pytest.raises(AssertionError, match="of no rule"):
        check(found)
    found = memo()
    with pytest.raises(ValueError, match="outside the timeline"):
        found.form(0, at(SNAPSHOT, 7))


def test_a_relation_that_is_found_to_be_another_has_its_forms() -> None:
    found = memo()
    op, _ = found.tvrs[2].expressions[0]
    mirrored = found.relation(op, (1, 0))
    delta, other = found.change(2, DELTA), found.change(mirrored, DELTA)
    assert found.find(delta) != found.find(other)
    assert found.equate(2, op, (1, 0))
    assert not found.equate(2, op, (1, 0))
    assert found.find(delta) == found.find(other)
    new = found.moment(mirrored, SNAPSHOT, old=False)
    assert found.moment(2, SNAPSHOT, old=False) == new
    check(found)


def test_only_the_same_relation_can_be_written_otherwise() -> None:
    found = memo()
    op, inputs = found.tvrs[2].expressions[0]
    with pytest.raises(ValueError, match="not the same relation"):
        found.equate(0, op, inputs)
