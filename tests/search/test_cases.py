"""Chosen views, operator by operator, each pack preferred in turn: the traps of each operator, every time."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.moments import Changes
from tests.model.scalars import INF, NAN, Row
from tests.model.semantics import Record
from tidemill.search.contract.run_plan import read_by
from tidemill.settings import PACKS

SOURCES = """\
source 0 t [a: long, b: long, x: double] rows=1000000
source 1 u [a: long, b: long, x: double] rows=1000000
source 2 w [a: long, b: long, x: double] rows=1000000
"""
T = "scan 0 [#0 := a, #1 := b, #2 := x]"
T_AGAIN = "scan 0 [#3 := a, #4 := b, #5 := x]"
U = "scan 1 [#3 := a, #4 := b, #5 := x]"
W = "scan 2 [#6 := a, #7 := b, #8 := x]"


def plan(line: str, *inputs: str) -> str:
    """An operator over inputs, indented."""
    return "\n".join((line, *("  " + x for i in inputs for x in i.splitlines())))


def framed(order: str, rows: str, partition: str = "#0") -> str:
    """A window over rows around each row; without real ties if the order names all columns."""
    return plan(f"window [#0, #1, #2, #9] partition=[{partition}] order=[{order}] rows={rows} (around)", T)


INNER = plan("join inner [(#0 = #3)]", T, U)
OUTER = plan("join left [(#0 = #3), (#1 < #4)]", T, U)
ADDITIVE = "#10 := count(*), #11 := count(#1), #12 := sum(#1), #13 := avg(#1), #14 := sum(#2), #15 := avg(#2)"
HOLISTIC = "#10 := min(#1), #11 := max(#2), #12 := count(distinct #1), #13 := sum(distinct #1), #14 := count(*)"
EXTREMA = "#10 := min(#1), #11 := max(#2), #12 := count(#1), #13 := max(#1) filter (#0 > 0)"
VIEWS = {
    "filter": plan("filter [(#0 > 0)]", T),
    "project": plan("project [#9 := (#0 + #1)]", T),
    "union": plan("union [#9, #10] from=[[#0, #1], [#4, #3]]", T, U),
    "self union": plan("union [#9] from=[[#0], [#4]]", T, T_AGAIN),
    "inner join": plan("join inner [(#0 = #3)]", T, U),
    "null-safe join": plan("join inner [(#0 <=> #3)]", T, U),
    "self-join": plan("join inner [(#0 = #4)]", T, T_AGAIN),
    "three inputs": plan("join inner [(#4 = #6), (#1 < #7)]", plan("join inner [(#0 = #3)]", T, U), W),
    "three inputs, one without an equality": plan("join inner [(#1 < #7)]", INNER, W),
    "four inputs in a row": plan(
        "join inner [(#7 = #10), (#9 > 0)]",
        plan("join inner [(#4 = #6)]", INNER, W),
        "scan 0 [#9 := a, #10 := b, #11 := x]",
    ),
    "cross join": plan("join inner []", T, U),
    "left join": plan("join left [(#0 = #3)]", T, U),
    "left join, more conditions": OUTER,
    "left join, left condition": plan("join left [(#0 = #3), (#1 > 0)]", T, U),
    "left join, no equality": plan("join left [(#1 < #4)]", T, U),
    "left join, null-safe": plan("join left [(#0 <=> #3), (#1 = #4)]", T, U),
    "left join with itself": plan("join left [(#0 = #4)]", T, T_AGAIN),
    "left join of left joins": plan("join left [(#3 = #6)]", OUTER, W),
    "left join, a row of NULLs can be a partner": plan("join left [(#0 <=> #3), (#1 <=> #4)]", T, U),
    "right join": plan("join right [(#0 = #3), (#1 < #4)]", T, U),
    "full join": plan("join full [(#0 = #3), (#1 < #4)]", T, U),
    "full join, null-safe": plan("join full [(#0 <=> #3)]", T, U),
    "semi join of groups over a join, one column like two": plan(
        "join semi [(#9 = #6), (#9 = #7)]", plan("aggregate keys=[#9 := #1] calls=[#10 := count(*)]", INNER), W
    ),
    "semi join": plan("join semi [(#0 = #3)]", T, U),
    "anti join": plan("join anti [(#0 = #3), (#1 <= #4)]", T, U),
    "anti join, no equality": plan("join anti [(#1 < #4)]", T, U),
    "not in": plan("join anti [((#0 = #3) or isnull((#0 = #3)))]", T, U),
    "not in, correlated": plan("join anti [(#1 = #4), ((#0 = #3) or isnull((#0 = #3)))]", T, U),
    "semi join, no equality": plan("join semi [(#1 < #4)]", T, U),
    "semi join, no condition": plan("join semi []", T, U),
    "semi join with itself": plan("join semi [(#0 = #4)]", T, T_AGAIN),
    "existence join, no equality": plan("join existence [(#1 < #4)] exists=#9", T, U),
    "full join, no equality": plan("join full [(#1 < #4)]", T, U),
    "full join with itself": plan("join full [(#0 = #4)]", T, T_AGAIN),
    "full join of full joins": plan("join full [(#3 = #6)]", plan("join full [(#0 = #3)]", T, U), W),
    "anti join of semi joins": plan("join anti [(#1 = #7)]", plan("join semi [(#0 = #3)]", T, U), W),
    "existence join": plan("join existence [(#0 = #3)] exists=#9", T, U),
    "sums": plan(f"aggregate keys=[#9 := #0] calls=[{ADDITIVE}]", T),
    "global sums": plan(f"aggregate keys=[] calls=[{ADDITIVE}]", T),
    "moments": plan("aggregate keys=[#9 := #0] calls=[#10 := stddev_samp(#1), #11 := var_pop(#2)]", T),
    "filtered calls": plan(
        "aggregate keys=[#9 := #0] calls=[#10 := sum(#1) filter (#1 > 0), #11 := count(*) filter (#0 = 1)]", T
    ),
    "extrema and distinct": plan(f"aggregate keys=[#9 := #0] calls=[{HOLISTIC}]", T),
    "global extrema": plan(f"aggregate keys=[] calls=[{HOLISTIC}]", T),
    "distinct": plan("aggregate keys=[#9 := #0, #10 := #1] calls=[]", T),
    "having": plan("filter [(#11 > 1)]", plan("aggregate keys=[#9 := #0] calls=[#11 := count(*)]", T)),
    "sums over a join": plan(f"aggregate keys=[#9 := #4] calls=[{ADDITIVE}, #16 := sum(#5)]", INNER),
    "global sums over a join": plan(f"aggregate keys=[] calls=[{ADDITIVE}]", INNER),
    "sums over three inputs": plan(
        "aggregate keys=[#9 := #1] calls=[#10 := count(*), #11 := sum(#7), #12 := avg(#2), #13 := sum((#1 * #4))]",
        plan("join inner [(#3 = #6)]", INNER, W),
    ),
    "sums of what reads both sides": plan(
        "aggregate keys=[#9 := #16] calls=[#10 := sum(#17), #11 := count(*), #12 := sum(#1) filter (#4 > 0)]",
        plan("project [#1, #4, #16 := (#0 + 1), #17 := (#1 * #4)]", INNER),
    ),
    "sums over pairs and pads": plan(
        "aggregate keys=[#9 := #1] calls=[#10 := count(*), #11 := count(#4), #12 := sum(#4), #13 := sum(#5)]", OUTER
    ),
    "sums over a left join": plan("aggregate keys=[#9 := #0] calls=[#10 := count(#4), #11 := sum(#4)]", OUTER),
    "sums of sums": plan(
        "aggregate keys=[#20 := #12] calls=[#21 := count(*), #22 := sum(#9)]",
        plan("aggregate keys=[#9 := #0] calls=[#12 := sum(#1)]", T),
    ),
    "extrema of sums": plan(
        "aggregate keys=[] calls=[#21 := max(#12)]", plan("aggregate keys=[#9 := #0] calls=[#12 := sum(#1)]", T)
    ),
    "sums joined": plan("join left [(#9 = #3)]", plan("aggregate keys=[#9 := #0] calls=[#12 := sum(#1)]", T), U),
    "equal sums joined": plan(
        "join inner [(#12 = #15)]",
        plan("aggregate keys=[#9 := #0] calls=[#12 := sum(#1)]", T),
        plan("aggregate keys=[#14 := #3] calls=[#15 := sum(#4)]", T_AGAIN),
    ),
    "limits of equal rows in another order": plan(
        "join inner [(#20 = #23)]",
        plan(
            "limit 2 order=[#20 asc nulls first, #21 asc nulls first]",
            plan("project [#20 := #12, #21 := #9]", plan("aggregate keys=[#9 := #0] calls=[#12 := min(#1)]", T)),
        ),
        plan(
            "limit 2 order=[#23 desc nulls first, #22 asc nulls first]",
            plan(
                "project [#22 := #14, #23 := #15]", plan("aggregate keys=[#14 := #3] calls=[#15 := min(#4)]", T_AGAIN)
            ),
        ),
    ),
    "sums of one side of a join": plan(
        "aggregate keys=[#9 := #3, #10 := #1] calls=[#12 := sum(#1), #13 := count(*), #14 := avg(#1) filter (#0 > 0)]",
        plan("join inner [(#0 = #4), (#1 <= #3)]", T, U),
    ),
    "sums of two sides of three": plan(
        "aggregate keys=[] calls=[#12 := sum((#1 + #4)), #13 := count(*)]",
        plan("join inner [(#4 = #6), (#1 < #7)]", plan("join inner [(#0 = #3)]", T, U), W),
    ),
    "sums of a self-join": plan(
        "aggregate keys=[#9 := #0] calls=[#12 := sum(#4)]", plan("join inner [(#0 <=> #3)]", T, T_AGAIN)
    ),
    "extrema of exact values": plan(
        "aggregate keys=[#9 := #0] calls=[#10 := min(#1), #11 := count(distinct #1) filter (#0 > 0), #12 := sum(#1)]", T
    ),
    "extrema alone": plan(f"aggregate keys=[#9 := #0] calls=[{EXTREMA}]", T),
    "global extrema alone": plan(f"aggregate keys=[] calls=[{EXTREMA}]", T),
    "extrema over a join": plan("aggregate keys=[#9 := #1] calls=[#10 := max(#4), #11 := count(#3)]", INNER),
    "extrema of sums of new rows": plan(
        "aggregate keys=[#20 := #9] calls=[#21 := max(#12), #22 := count(*)]",
        plan("aggregate keys=[#9 := #0, #19 := #1] calls=[#12 := count(#2)]", T),
    ),
    "rows with the largest value of their key": plan(
        "join inner [(#0 = #9), (#1 = #10)]", T, plan("aggregate keys=[#9 := #3] calls=[#10 := max(#4)]", T_AGAIN)
    ),
    "extrema over a left join": plan("aggregate keys=[#9 := #0] calls=[#10 := max(#4), #11 := count(#3)]", OUTER),
    "intersect": plan(
        "aggregate keys=[#9 := #0, #10 := #1] calls=[]", plan("join semi [(#0 <=> #3), (#1 <=> #4)]", T, U)
    ),
    "except": plan("aggregate keys=[#9 := #1] calls=[]", plan("join anti [(#1 <=> #4)]", T, U)),
    "exists over an inner join": plan("join existence [(#1 = #7)] exists=#9", plan("join inner [(#0 = #3)]", T, U), W),
    "left join over an inner join": plan("join left [(#1 = #7)]", plan("join inner [(#0 = #3)]", T, U), W),
    "inner join over a left join": plan("join inner [(#1 = #7), (#3 < #6)]", plan("join left [(#0 = #3)]", T, U), W),
    "inner join over not in": plan(
        "join inner [(#1 = #7)]", plan("join anti [((#0 = #3) or isnull((#0 = #3)))]", T, U), W
    ),
    "limit": plan("limit 2 order=[#0 desc nulls last, #1 asc nulls first, #2 asc nulls first]", T),
    "limit of groups": plan(
        "limit 2 offset=1 order=[#12 desc nulls last, #9 asc nulls first]",
        plan("aggregate keys=[#9 := #0] calls=[#12 := min(#1)]", T),
    ),
    "partitions": plan("window [#0, #1, #2, #9] partition=[#0] (count of all)", T),
    "partitions of expressions": plan("window [#0, #1, #2, #9] partition=[(#0 + #1), #0] (count of all)", T),
    "partitions of a join": plan("window [#0, #1, #3, #4, #9] partition=[#0] (count of all)", INNER),
    "one partition": plan("window [#0, #1, #9] partition=[] (count of all)", T),
    "frames": framed("#1 asc nulls first, #0 asc nulls first, #2 asc nulls first", "1,1"),
    "frames backwards": framed("#1 desc nulls last, #2 desc nulls last", "2,0"),
    "frames ahead": framed("#1 asc nulls last, #2 desc nulls first", "0,2"),
    "frames in one partition": framed("#0 desc nulls first, #1 desc nulls last, #2 asc nulls first", "1,0", ""),
    "frames over a join": plan(
        "window [#0, #1, #3, #4, #9] partition=[#0] order=[#4 asc nulls last, #1 asc nulls last] rows=1,1 (around)",
        INNER,
    ),
    "frames below a rank": plan(
        "window [#0, #1, #2, #9, #10] partition=[#0] (count of all)",
        plan("project [#0, #1, #2, #9]", framed("#1 asc nulls first, #2 asc nulls first", "1,1")),
    ),
    "frames below other frames": plan(
        "window [#0, #1, #2, #9, #10] partition=[#1] order=[#0 desc nulls last, #9 asc nulls last, #2 asc nulls first]"
        " rows=0,1 (around)",
        plan("filter [(#0 > 0)]", framed("#1 asc nulls first, #2 asc nulls first", "2,0")),
    ),
    "rank filter over a left join": plan(
        "filter [(#9 > 1)]", plan("window [#0, #1, #3, #4, #9] partition=[#0] (count of all)", OUTER)
    ),
    "two windows": plan(
        "join inner [(#0 = #3)]",
        plan("window [#0, #1, #9] partition=[#0] (count of all)", T),
        plan("window [#3, #4, #10] partition=[#4] (count of all)", T_AGAIN),
    ),
    "grouping sets": plan(
        "aggregate keys=[#20 := #0, #21 := #9] calls=[#22 := sum(#1), #23 := count(*)]",
        plan("row_wise Expand [#0, #1, #9] (two sets)", T),
    ),
    "generated": plan("row_wise Generate [#0, #1, #2, #9] (twice)", plan("join inner [(#0 = #3)]", T, U)),
    "two opaque operators alike": plan(
        "join inner [(#0 = #3)]",
        plan("opaque Window [#0, #1, #2, #9] (no rule)", T),
        plan(
            "aggregate keys=[#3 := #13] calls=[#14 := max(#19)]",
            plan("opaque Window [#13, #14, #19] (another)", "scan 0 [#13 := b, #14 := a]"),
        ),
    ),
    "window": plan("opaque Window [#0, #1, #2, #9] (no rule)", T),
    "sums over a window": plan(
        "aggregate keys=[#20 := #9] calls=[#21 := sum(#1)]", plan("opaque Window [#0, #1, #2, #9] (no rule)", T)
    ),
}
FREE = {
    "limit with ties": plan("limit 2 order=[#0 asc nulls first]", T),
    "any rows": plan("limit 2 order=[]", plan("join inner [(#0 = #3)]", T, U)),
}


def record(dice: random.Random) -> Record:
    floats = (None, Fraction(1, 10), Fraction(10**16), Fraction(-(10**16)), NAN, INF, -INF)
    small = (None, 0, 1, 2)
    return {"a": dice.choice(small), "b": dice.choice(small), "x": dice.choice(floats)}


def table(dice: random.Random, rows: int) -> list[Record]:
    return [record(dice) for _ in range(rows)]


def changes(dice: random.Random, view: View) -> Changes:
    """Deletes, inserts and, half of the time, a row that came and went, on one or more sources; a third only grow."""
    numbers = dice.sample(sorted(view.tables), dice.randint(1, len(view.tables)))
    feed: dict[int, list[tuple[Record, int]]] = {}
    for n in numbers:
        share = dice.choice((0.2, 0.5, 1.0))
        grows = dice.random() < 0.33
        gone = [(r, -1) for r in view.tables[n] if dice.random() < share and not grows]
        feed[n] = [*gone, *((record(dice), 1) for _ in range(dice.randint(0, 4)))]
        if dice.random() < 0.5 and not grows:
            brief = record(dice)
            feed[n] += [(brief, 1), (brief, -1)]
    return feed


def maintained(text: str, mode: Mode, seed: int, rounds: int) -> View:
    dice = random.Random(seed)
    view = View(SOURCES + text, {n: table(dice, dice.randint(0, 6)) for n in range(3)}, mode, seed=seed)
    for _ in range(rounds):
        view.refresh(changes(dice, view))
    return view


def test_a_partner_that_arrives_later_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of a key now, its partner in a later run, one to many and many to many; then they leave again."""
    monkeypatch.setattr("tests.model.maintain.STORED_ROWS", 1)  # a state is read where it is cheaper than the sources
    text = SOURCES + VIEWS["sums of one side of a join"]

    def rows(*values: int) -> list[Record]:
        return [{"a": 1, "b": v, "x": 0} for v in values]

    def here(at: int, *values: int) -> Changes:
        return {at: [(r, 1) for r in rows(*values)]}

    def gone(at: int, *values: int) -> Changes:
        return {at: [(r, -1) for r in rows(*values)]}

    u = [{"a": 2, "b": 1, "x": 0}]
    view = View(text, {0: [], 1: [], 2: []}, Mode(prefer="lineage", keep=1.0))
    steps: list[tuple[Changes, int]] = [
        (here(0, 0, 1), 0),
        ({1: [(r, 1) for r in u]}, 2),
        (here(0, 1), 3),
        ({1: [(r, 1) for r in u]}, 6),
        (gone(0, 1), 4),
        ({1: [(r, -1) for r in u]}, 2),
        ({1: [(r, -1) for r in u]}, 0),
    ]
    for feed, pairs in steps:
        found = view.refresh(feed)
        assert "lineage" in found.methods
        assert sum(row[3] for row in view.rows()) == pairs
        assert {"state"} <= read_by(found.steps)


WITHOUT_RULE = {"window"}
LATER = (pytest.mark.slow, pytest.mark.whole)
"""Marks of variants that the longer suites run, all of them."""


def _ways() -> Iterator[Any]:
    """Each view with no pack preferred, and with each: with one for every change, with all in the longer suites; with
    one of the seeds each unless TIDEMILL_CASES is "all", and where none is preferred with the others there, too."""
    for i, name in enumerate(VIEWS):
        yield pytest.param(name, None, (0,), id=f"{name}-none")
        yield pytest.param(name, None, (1, 2), id=f"{name}-none, costs shaken", marks=LATER)
        for j, pack in enumerate(PACKS):
            few = (i + j) % len(PACKS) == 0
            seeds = range(3) if os.environ.get("TIDEMILL_CASES") == "all" else (j % 3,)
            yield pytest.param(name, pack, seeds, id=f"{name}-{pack}", marks=() if few else pytest.mark.slow)


@pytest.mark.parametrize(("name", "prefer", "seeds"), list(_ways()))
def test_a_view_is_its_query_after_every_run(name: str, prefer: str | None, seeds: Sequence[int]) -> None:
    kinds: Counter[str] = Counter()
    for seed in seeds:
        mode = Mode(prefer=prefer, shake=seed or None, ordered=seed == 2)
        kinds.update(maintained(VIEWS[name], mode, seed, 4).kinds)
    if name in WITHOUT_RULE and prefer != "recompute":
        assert not kinds["INCREMENTAL"]  # the difference of two whole computations is a full run, and says so
    else:
        assert kinds["INCREMENTAL"] > 0 or prefer is None  # free to choose, it may find the full run cheaper


@pytest.mark.parametrize("keep", [0.0, 1.0])
@pytest.mark.parametrize("name", VIEWS)
def test_all_states_or_none(name: str, keep: float) -> None:
    maintained(VIEWS[name], Mode(prefer="delta", keep=keep, ordered=keep == 1.0), 7, 4)


@pytest.mark.parametrize("shake", [None, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "name",
    [
        "three inputs",
        "three inputs, one without an equality",
        "four inputs in a row",
        "sums over three inputs",
        "sums of two sides of three",
    ],
)
def test_joins_read_once(name: str, shake: int | None) -> None:
    """Without terms, all changes of a join come from one join of its inputs."""
    for seed in range(3):
        maintained(VIEWS[name], Mode(prefer="delta", off=frozenset({"inner_join"}), shake=shake), seed, 4)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LATER) if i % 2 else name for i, name in enumerate(VIEWS)])
def test_without_old_snapshots(name: str) -> None:
    maintained(VIEWS[name], Mode(readable=False), 3, 4)


@pytest.mark.parametrize("name", FREE)
def test_a_free_answer_stays_a_valid_one(name: str) -> None:
    """Ties may be broken anew in each run; what is retracted is always what the view holds."""

    def valid(rows: Sequence[Row], view: View) -> None:
        limit = view.query.document["root"]
        unlimited = View(SOURCES + FREE[name].partition("\n")[2].replace("\n  ", "\n").strip(), view.tables)
        every = Counter(unlimited.rows())
        assert not Counter(rows) - every
        assert len(rows) == min(2, every.total())
        if limit["order"]:
            firsts = sorted((r[0] is not None, r[0] or 0) for r in every.elements())
            assert sorted((r[0] is not None, r[0] or 0) for r in rows) == firsts[: len(rows)]

    for seed in range(4):
        dice = random.Random(seed)
        view = View(SOURCES + FREE[name], {n: table(dice, 5) for n in range(3)}, Mode(prefer="delta"), valid, seed)
        for _ in range(4):
            view.refresh(changes(dice, view))
        assert "INCREMENTAL" in view.kinds


@pytest.mark.parametrize("name", [name for name in VIEWS if name.startswith("frames") and "below" not in name])
@pytest.mark.parametrize("seed", range(8))
def test_frames_are_computed_from_the_first_changed_row_on(name: str, seed: int) -> None:
    off = frozenset({"affected_partitions", "touched_keys", "difference"})
    kinds = maintained(VIEWS[name], Mode(prefer="affected", off=off, keep=seed % 3 / 2), seed, 6).kinds
    assert "INCREMENTAL" in kinds


@pytest.mark.parametrize("prefer", [None, *PACKS])
def test_first_of_a_group_stays_one_of_its_values(prefer: str | None) -> None:
    text = plan("aggregate keys=[#9 := #0] calls=[#10 := first(#1)]", T)

    def valid(rows: Sequence[Row], view: View) -> None:
        assert sorted({r[0] for r in rows}, key=str) == sorted({r["a"] for r in view.tables[0]}, key=str)
        assert all(any(r["a"] == k and r["b"] == v for r in view.tables[0]) for k, v in rows)
        assert len({r[0] for r in rows}) == len(rows)

    for seed in range(4):
        dice = random.Random(seed)
        view = View(SOURCES + text, {n: table(dice, 5) for n in range(3)}, Mode(prefer=prefer), valid, seed)
        for _ in range(4):
            view.refresh(changes(dice, view))
