"""Rows of some keys: asked for below what computes them, and told by the change where they are from before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.search.test_cases import SOURCES, VIEWS, T, U, W, maintained, plan
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import Piece
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.search.space import cuts
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query


def nodes(step: Mapping[str, Any], *above: str) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Each node of a step with the operators above it, the nearest one first."""
    yield step, above
    for below in step.get("inputs", ()):
        yield from nodes(below, step["op"] + (f" {step['kind']}" if "kind" in step else ""), *above)


def read(found: ExplainedPlan) -> Counter[tuple[int, int]]:
    """How often each source is read at each moment."""
    every = (node for step in found.steps for node, _ in nodes(step.plan))
    return Counter((node["source"], node["at"]) for node in every if node["op"] == "scan")


def refreshed(
    text: str,
    prefer: str | None = "affected",
    *,
    states: bool = False,
    few: Container[int] | None = None,
    rows: float = 1e8,
) -> ExplainedPlan:
    """The plan of a run, by affected keys and without states unless told, where little of large sources has changed.

    `few`: the sources that have changed; every state is kept, and states and content are a hundredth of the sources.
    """
    change = SourceChange(True, True, rows=rows, bytes=rows * 100, inserts=500, deletes=500, direct=True)
    query = parse_query(SOURCES + text)
    request = PlanRequest(
        query,
        "STRICT",
        dict.fromkeys(query.sources, change),
        frozenset(),
        first=False,
        full_reason=None,
        settings=PlannerSettings(prefer=prefer),
    )
    filling = plan_run(replace(request, first=True))
    found = frozenset(state.name for state in filling.states) if states else frozenset()
    if few is not None:
        found = frozenset(c.name for c in filling.explanation.space.candidates)
        pieces = {name: [Piece(1, 1_000_000, 1_000_000, 0), Piece(1, 1000, 1000, 1)] for name in found}
        sources = {n: replace(change, changed=n in few) for n in query.sources}
        request = replace(request, sources=sources, pieces=pieces, rows=1e6)
    return plan_run(replace(request, chosen=filling.chosen, states=found))


@pytest.mark.parametrize("name", ["semi join", "anti join", "existence join", "left join", "full join, null-safe"])
def test_one_reading_serves_both_moments(name: str) -> None:
    found = refreshed(VIEWS[name])
    assert "affected" in found.methods
    assert read(found) == {(0, 1): 1, (1, 1): 1}


SUMS = "aggregate keys=[#9 := #3] calls=[#12 := min(#4)]"
BELOW = {
    "a join of joins": VIEWS["anti join of semi joins"].replace("(#1 = #7)", "(#0 = #6)"),
    "groups": plan("join left [(#0 = #9)]", T, plan(SUMS, U)),
    "groups above groups": plan(
        "join left [(#6 = #20)]",
        W,
        plan("aggregate keys=[#20 := #9] calls=[#21 := max(#12)]", plan(SUMS, U)),
    ),
    "a union": plan("join left [(#6 = #9)]", W, plan("union [#9, #10] from=[[#0, #1], [#4, #3]]", T, U)),
    "an inner join": plan("join anti [(#0 = #6)]", plan("join inner [(#0 = #3), (#1 < #4)]", T, U), W),
    "partitions": plan("join left [(#6 = #0)]", W, VIEWS["partitions"]),
}
JOINED = plan("join inner [(#0 = #3)]", T, U)


@pytest.mark.parametrize("name", BELOW)
def test_keys_are_asked_for_where_rows_are_read(name: str) -> None:
    """No operator but those that Spark has at a scan stands between it and the keys."""
    found = refreshed(BELOW[name])
    for step in found.steps:
        for node, above in nodes(step.plan):
            if node["op"] == "scan":
                nearest = next(word for word in above if word not in {"project", "filter"})
                assert nearest in {"join semi", "join inner"}, (step.name, above)  # inner: with a change


def test_rows_that_keys_pick_lead_a_join() -> None:
    """Spark cannot know how few they are: it would move all of the other side to them."""
    found = refreshed(plan("aggregate keys=[#20 := #1] calls=[#21 := min(#4)]", JOINED), rows=1e5)
    joins = [n for step in found.steps for n, _ in nodes(step.plan) if n["op"] == "join" and n["kind"] == "inner"]
    led = [join for join in joins if join["inputs"][0].get("kind") == "semi"]
    assert led
    assert all(join["broadcast"] == "left" for join in led)


@pytest.mark.parametrize(
    ("name", "prefer", "wanted"),
    [
        ("left join of left joins", "delta", {"Unsign", "Net"}),
        ("anti join of semi joins", "delta", {"Unsign", "Net"}),
        ("full join of full joins", "affected", {"Unsign", "Net", "Sum"}),
    ],
)
def test_of_a_state_what_is_wanted_is_put_together(name: str, prefer: str, wanted: set[str]) -> None:
    """The pieces of a state are large, what little changed asks of them is not; a Sum: with what came since."""
    found = refreshed(VIEWS[name], prefer, states=True)
    used = {type(u.expression.op).__name__ for u in found.explanation.used if u.expression.rule == cuts.RULE}
    assert wanted <= used
    for step in found.steps:
        for node, above in nodes(step.plan):
            if node["op"] == "state":
                nearest = next(word for word in above if word not in {"project", "filter"})
                assert nearest == "join semi", (step.name, above)


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("kept", ["sums", "rows"])
def test_of_a_state_a_join_with_a_change_merges_what_it_can_meet(kind: str, kept: str) -> None:
    below = {"sums": U, "rows": plan("filter [(#4 > 0)]", U)}
    state = below["rows"] if kept == "rows" else plan("aggregate keys=[#9 := #3] calls=[#12 := sum(#4)]", U)
    text = plan(f"join {kind} [(#0 = {'#3' if kept == 'rows' else '#9'})]", T, state)
    found = refreshed(text, "delta", few={0})
    above = [names for step in found.steps for node, names in nodes(step.plan) if node["op"] == "state"]
    assert above
    for names in above:
        assert next(word for word in names if word not in {"project", "filter"}) == "join semi"


def test_the_content_has_the_rows_below_a_window() -> None:
    """Those of the partitions that a change touches are read once, for both moments; no source is read for them."""
    text = plan("window [#0, #1, #2, #3, #4, #5, #9] partition=[#1] (row_number of all)", JOINED)
    found = refreshed(text, None, few={0, 1})
    assert read(found) == {(0, 1): 1, (1, 0): 1}  # with the change of the other side
    assert [node["op"] for step in found.steps for node, _ in nodes(step.plan)].count("result") == 1


def test_rows_below_a_window_that_the_content_does_not_show_are_computed() -> None:
    text = plan("window [#0, #1, #9] partition=[#0] (row_number of all)", JOINED)
    found = refreshed(text, None, few={0, 1})
    assert (0, 1) in read(found)
    assert (1, 1) in read(found)


@pytest.mark.parametrize("name", ["frames below a rank", "frames"])
def test_no_state_holds_what_the_content_holds(name: str) -> None:
    """Rows of a window whose values depend on ties are read from the content, too, if that is where they are kept."""
    change = SourceChange(True, True, rows=1e8, bytes=1e10, inserts=500, deletes=500, direct=True, values={"a": 1e6})
    query = parse_query(SOURCES + VIEWS[name])
    request = PlanRequest(query, "STRICT", {0: change}, frozenset(), first=True, full_reason=None)
    assert not plan_run(request).states
    found = plan_run(replace(request, first=False))
    leaves = [node["op"] for step in found.steps for node, _ in nodes(step.plan) if "inputs" not in node]
    assert "result" in leaves
    assert "state" not in leaves


@pytest.mark.parametrize("nulls", ["=", "<=>"])
def test_rows_without_a_key_are_kept_where_they_count(nulls: str) -> None:
    """NULL is a key of the side that is padded, and of both where it is equal to itself."""
    text = SOURCES + plan(f"join left [(#0 {nulls} #3)]", T, U)
    rows = [{"a": a, "b": 1, "x": 0.0} for a in (None, 1, 2)]
    view = View(text, {0: rows, 1: rows, 2: []}, Mode(prefer="affected", keep=0.0))
    for change in ({1: [(rows[0], -1)]}, {0: [(rows[0], -1)]}, {0: [(rows[0], 1)], 1: [(rows[0], 1)]}):
        view.refresh(change)  # compared with its query


@pytest.mark.slow
def test_plans_drawn_by_chance_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The differential suite shakes costs; so it meets what is found here in every kind of view."""
    used: Counter[str] = Counter()

    def noted(self: View, found: ExplainedPlan, execute: Any = View._execute) -> None:
        used.update(type(u.expression.op).__name__ for u in found.explanation.used if u.expression.rule == cuts.RULE)
        execute(self, found)

    monkeypatch.setattr(View, "_execute", noted)
    for name in ("anti join of semi joins", "sums joined", "left join over an inner join", "having"):
        for seed in range(6):
            maintained(VIEWS[name], Mode(prefer="affected", shake=seed), seed, 3)
    assert {"KeyFilter", "Join", "Aggregate", "Less"} <= used.keys()


@pytest.mark.parametrize(("keys", "inserts", "looked_for"), [(1, 9e5, True), (1, 6e6, False), (8, 9e5, False)])
def test_narrow_keys_of_many_rows_are_looked_for_in_a_state(keys: int, inserts: float, looked_for: bool) -> None:
    """More rows than are broadcast whatever their width: only narrow keys, and only a small part of the groups."""
    columns = [f"c{n}: long" for n in range(keys)]
    grouped = ", ".join(f"#{n + 20} := #{n}" for n in range(keys))
    scanned = ", ".join(f"#{n} := c{n}" for n in range(keys))
    text = f"source 0 t [{', '.join(columns)}, x: long] rows=60000000\n" + plan(
        f"aggregate keys=[{grouped}] calls=[#40 := sum(#19)]", f"scan 0 [{scanned}, #19 := x]"
    )
    change = SourceChange(True, True, rows=6e7, inserts=inserts, deletes=0.0, direct=True)
    request = PlanRequest(parse_query(text), "STRICT", {0: change}, frozenset(), False, None, rows=15e6)
    (kept,) = (s.name for s in plan_run(replace(request, first=True, full_reason="FIRST", rows=None)).states)
    pieces = {kept: [Piece(1, 15_000_000, 240_000_000, 1)]}
    found = plan_run(replace(request, states=frozenset({kept}), pieces=pieces))
    every = [node for step in found.steps for node, _ in nodes(step.plan)]
    assert any(node["op"] == "state" for node in every)
    assert any(node.get("kind") == "semi" for node in every) is looked_for
