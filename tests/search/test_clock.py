"""Filters and projections that read the clock: rows come in by the data and leave by the clock."""

from __future__ import annotations

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.semantics import Record
from tidemill.settings import PACKS

SOURCES = """\
source 0 t [k: long, d: long, v: long] rows=1000000
source 1 u [k: long, d: long, v: long] rows=1000000
source 2 clock [now: long] kind=clock
"""
SCANS = ("scan 0 [#0 := k, #1 := d, #2 := v]", "scan 1 [#10 := k, #11 := d, #12 := v]")
ABOVE, BETWEEN = "(#1 > (clock() - 7))", "(#1 >= (clock() - 7)), (#1 <= clock())"
QUERIES = {
    "filter": [f"filter [{ABOVE}]", f"  {SCANS[0]}"],
    "between, among other conjuncts": [f"filter [(#2 > 0), {BETWEEN}]", f"  {SCANS[0]}"],
    "below an aggregate": [
        "aggregate keys=[#3 := #0] calls=[#4 := sum(#2), #5 := count(*)]", f"  filter [{ABOVE}]", f"    {SCANS[0]}",
    ],
    "below a maximum": [
        "aggregate keys=[#3 := #0] calls=[#4 := max(#2)]", f"  filter [{BETWEEN}]", f"    {SCANS[0]}",
    ],
    "over an aggregate": [
        "filter [(#4 > (clock() - 7))]", "  aggregate keys=[#3 := #0] calls=[#4 := max(#1)]", f"    {SCANS[0]}",
    ],
    "in a join": ["join inner [(#0 = #10)]", f"  filter [{ABOVE}]", f"    {SCANS[0]}", f"  {SCANS[1]}"],
    "over a join": [
        "filter [((#1 + #12) > clock())]", "  join inner [(#0 = #10)]", f"    {SCANS[0]}", f"    {SCANS[1]}",
    ],
    "under the padded side": ["join left [(#10 = #0)]", f"  {SCANS[1]}", f"  filter [{ABOVE}]", f"    {SCANS[0]}"],
    "under the kept side": ["join left [(#0 = #10)]", f"  filter [{ABOVE}]", f"    {SCANS[0]}", f"  {SCANS[1]}"],
    "not among": ["join anti [(#10 = #0)]", f"  {SCANS[1]}", f"  filter [{ABOVE}]", f"    {SCANS[0]}"],
    "first rows": [
        "limit 2 order=[#1 asc nulls first, #0 asc nulls first, #2 asc nulls first]", f"  filter [{ABOVE}]",
        f"    {SCANS[0]}",
    ],
    "no column": ["filter [(clock() > 12)]", f"  {SCANS[0]}"],
    "projected": ["project [#0, #1, #2, #3 := (#1 < clock())]", f"  {SCANS[0]}"],
    "grouped by the answer": [
        "aggregate keys=[#4 := #3] calls=[#5 := count(*)]", "  project [#0, #3 := (#1 < clock())]", f"    {SCANS[0]}",
    ],
    "partitions": [
        "window [#0, #1, #2, #3] partition=[#0] (count of all)", f"  filter [{ABOVE}]", f"    {SCANS[0]}",
    ],
}  # fmt: skip


def row(k: int | None, d: int | None, v: int) -> Record:
    return {"k": k, "d": d, "v": v}


START = [row(1, 3, 1), row(1, 9, 2), row(2, 5, 3), row(2, None, 4), row(3, 15, 5), row(3, 15, 5), row(None, 11, 6)]


def view(query: str, mode: Mode, readable: bool = True) -> View:
    text = SOURCES + "\n".join(QUERIES[query])
    return View(text, {0: START, 1: START[:4], 2: [{"now": 10}]}, mode)


def moved(before: int, after: int) -> dict[int, list[tuple[Record, int]]]:
    return {2: [({"now": before}, -1), ({"now": after}, 1)]}


MODES = [Mode(), *(Mode(prefer=pack, keep=1.0) for pack in PACKS), Mode(readable=False, keep=1.0)]
CASES = [
    pytest.param(query, mode, marks=[] if j in {0, 1 + i % len(PACKS)} else pytest.mark.slow, id=f"{query}-{j}")
    for i, query in enumerate(QUERIES)
    for j, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("query", "mode"), CASES)
def test_rows_come_by_the_data_and_leave_by_the_clock(query: str, mode: Mode) -> None:
    kept = view(query, mode)
    kept.refresh({0: [(row(2, 12, 7), 1)]})
    kept.refresh(moved(10, 13))
    # in the same run: a row that the clock just lets in is deleted, one that it lets out is inserted once more
    kept.refresh({0: [(row(3, 15, 5), -1), (row(1, 9, 2), 1), (row(4, 21, 8), 1)], **moved(13, 17)})
    kept.refresh(moved(17, 11))  # a clock that was put back
    kept.early({0: [(row(5, 13, 1), 1)], **moved(11, 12)})
    kept.early(moved(12, 18))
    kept.refresh({1: [(row(1, 20, 2), 1)], **moved(18, 20)})


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("policy", ["INCREMENTAL", "STRICT"])
def test_no_policy_recomputes_them(query: str, policy: str) -> None:
    kept = view(query, Mode(policy=policy))  # type: ignore[arg-type]  # a policy
    kept.refresh({0: [(row(2, 12, 7), 1)], **moved(10, 13)})
    assert kept.kinds[-1] == "INCREMENTAL"


def test_only_the_rows_between_both_bounds_are_read() -> None:
    kept = view("filter", Mode(prefer="delta"))
    plan = kept.refresh(moved(10, 13))
    text = str(plan.steps[-1].plan)
    assert text.count("'op': 'scan'") == 1
    assert text.count("'op': 'changes'") == 0
