"""What the default cost model makes of operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_model.default import MODEL
from tests.search.test_planner import EXTREMA, SUMS, change, planned
from tidemill.cost.costing import BROADCAST_ROWS, Facts, Read, RowCount, row_bytes
from tidemill.cost.kept import KeptRows, StateRows
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Col
from tidemill.plan.kinds import JoinKind, StatePart
from tidemill.plan.ops import (
    Bounds,
    HeldScan,
    Join,
    JoinChange,
    Keys,
    Op,
    Reach,
    ReachedWindow,
    ResultScan,
    Scan,
    SortKey,
    StateScan,
    Window,
    WindowCall,
)
from tidemill.search.contract.request import PlanRequest
from tidemill.search.service.planner import plan_run
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, SNAPSHOT, FormKind

PARTS: tuple[StatePart, ...] = ("", "before", "since")
FACTS = Facts(parse_query("source 0 t [a: long] rows=10\nscan 0 [#0 := a]\n"), (), {})
NARROW, WIDE = row_bytes(["long"] * 2), row_bytes(["string"] * 10)
ROWS = 200_000.0


def side(rows: float, width: int = NARROW, form: FormKind = SNAPSHOT) -> Read:
    return Read(0, RowCount(rows), form, row_bytes=width)


def cost(op: Op, *reads: Read) -> float:
    return float(MODEL.cost(op, reads, RowCount(0.0), FACTS))


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti", "existence"])
def test_what_is_broadcast_is_told_from_bytes(kind: JoinKind) -> None:
    """Spark goes by them; a change, which it is told to broadcast, may be larger."""
    join = Join(kind, ())
    narrow, wide = (cost(join, side(1e7), side(ROWS, width)) for width in (NARROW, WIDE))
    assert narrow < wide / 10
    assert cost(join, side(1e7), side(ROWS, WIDE, DELTA)) == narrow
    assert cost(join, side(1e7), side(BROADCAST_ROWS + 1, WIDE, DELTA)) > wide
    assert cost(join, side(1e7), side(BROADCAST_ROWS + 1, NARROW, DELTA)) < wide / 5


def test_a_join_of_several_changes_goes_by_bytes_too() -> None:
    """As lowering does."""
    join = JoinChange((), (7, 8), ())
    old, many = side(1e7), side(BROADCAST_ROWS + 1)
    narrow, wide = (
        cost(join, old, many, side(0.0, width), side(BROADCAST_ROWS + 1, width)) for width in (NARROW, WIDE)
    )
    assert narrow < wide / 2


def test_a_full_join_broadcasts_nothing() -> None:
    join = Join("full", ())
    assert cost(join, side(1e7), side(ROWS)) == cost(join, side(1e7), side(ROWS, WIDE))


def test_each_join_and_each_grouping_is_an_exchange() -> None:
    nothing = [side(0.0)] * 3
    assert cost(Join("inner", ()), *nothing) == 2 * MODEL.exchange
    assert cost(Join("left", ()), *nothing[:2]) == MODEL.exchange
    assert cost(Keys(((),)), nothing[0]) == MODEL.exchange


def framed(function: str, before: int, *, floating: bool = False) -> Window:
    call = WindowCall(function, "rows", floating, (before, 0))
    return Window(0, (0, 1), (), (call,), "", (SortKey(Col(0), ascending=True, nulls_first=True),))


def test_a_moving_frame_costs_its_rows_or_a_tree() -> None:
    one, year = (cost(framed("min", n), side(ROWS)) for n in (0, 364))
    rounded = cost(framed("sum", 364, floating=True), side(ROWS))
    assert year - one == pytest.approx(ROWS * (MODEL.tree - MODEL.frame))
    assert rounded - one == pytest.approx(ROWS * 364 * MODEL.frame)  # a tree would round in another order
    assert cost(framed("sum", 364), side(ROWS)) == year


def test_of_a_window_that_is_reached_few_frames_are_computed() -> None:
    """Ten partitions: some 3,650 rows are read, and one row of each partition is reached."""
    year, none = (ReachedWindow(framed(function, 364), (), 2, 3) for function in ("min", "lag"))
    read, starts = side(ROWS), side(10.0)
    rows = MODEL.rows(year, [read.rows, starts.rows], FACTS)
    assert rows == 10.0
    found, least = (float(MODEL.cost(window, [read, starts], rows, FACTS)) for window in (year, none))
    assert found - least == pytest.approx(10 * 365 * MODEL.frame)


def test_of_a_window_over_all_rows_before_all_are_read_and_few_are_reached() -> None:
    order = (SortKey(Col(0), ascending=True, nulls_first=True),)
    running, filled = (
        ReachedWindow(Window(0, (0, 1), (), (WindowCall("sum", "rows", False, rows, since),), "", order), (), 2, 3)
        for rows, since in (((None, 0), None), ((0, 0), Col(1)))
    )
    read, starts = side(ROWS), side(10.0)
    assert [MODEL.rows(window, [read.rows, starts.rows], FACTS) for window in (running, filled)] == [10.0, 10.0]
    whole = cost(running.window, read)
    assert whole <= cost(running, read, starts) < whole * 1.1, "the window is computed, few rows of it are compared"
    assert cost(filled, read, starts) < whole / 5
    told = cost(Reach((), order, Bounds(0, 0, whole="any order"), 2, 3), starts)
    assert told == pytest.approx(MODEL.exchange, abs=0.1), "the change alone tells"


def test_each_file_of_a_source_is_opened() -> None:
    scan = Scan(0, ((0, "a"),), 1)
    known = SourceChange(changed=True, old_readable=True, rows=10.0)
    unknown, one, many = (replace(FACTS, steps=({0: replace(known, files=files)},)) for files in (None, 1.0, 80.0))
    costs = [float(MODEL.cost(scan, (), RowCount(10.0), facts)) for facts in (unknown, one, many)]
    assert costs[0] == costs[1] == pytest.approx(costs[2] - 79 * MODEL.file)


def test_what_is_kept_has_the_rows_that_were_counted() -> None:
    """Parts of a state that nobody counted are taken for the whole, what is unknown for next to nothing."""
    kept = KeptRows({"s": StateRows(10.0, segments=4.0, before=7.0), "t": StateRows(before=0.0)}, held=0.0)
    facts = replace(FACTS, kept=kept)
    parts = {(name, part): facts.kept_rows(StateScan(name, "", (), part)) for name in "stu" for part in PARTS}
    assert [parts["s", part] for part in PARTS] == [10.0, 7.0, 10.0]
    assert [parts["t", part] for part in PARTS] == [1.0, 0.0, 1.0]
    assert [parts["u", part] for part in PARTS] == [1.0, 1.0, 1.0]
    assert (facts.kept_rows(HeldScan(())), facts.kept_rows(ResultScan(()))) == (0.0, 1.0)
    assert (facts.segments("s"), facts.segments("u"), kept.size("s"), kept.size("t")) == (4.0, 0.0, 10.0, 0.0)


def test_a_change_costs_what_is_read_to_tell_it() -> None:
    """Files that were written anew for a few rows of theirs: under AUTO the whole is computed again if that is less."""
    few, whole = change(), change(read=2e7)
    assert planned(SUMS, {0: whole}, policy="STRICT").estimated > 2 * planned(SUMS, {0: few}, policy="STRICT").estimated
    assert planned(EXTREMA, {0: few}).kind == "INCREMENTAL"
    assert planned(EXTREMA, {0: replace(few, read=2e8)}).kind == "FULL"


def test_a_table_of_many_small_files_is_not_compared_as_a_whole() -> None:
    """Opening its files takes longer than reading a change feed, however few rows it has."""
    text = "source 0 t [a: long, b: long] kind=delta rows=5000\n"
    text += "project [#9 := (#1 + 1)]\n  filter [(#1 > 10)]\n    scan 0 [#0 := a, #1 := b]\n"
    small = change(rows=5_000.0, inserts=100.0, deletes=0.0)
    methods = [
        plan_run(
            PlanRequest(
                query=parse_query(text),
                policy="INCREMENTAL",
                sources={0: replace(small, files=files)},
                states=frozenset(),
                first=False,
                full_reason=None,
                rows=2_500.0,
            )
        ).methods
        for files in (1.0, 80.0)
    ]
    assert methods == [("delta", "recompute"), ("delta",)]
