"""What the default cost model makes of operators."""

from __future__ import annotations

import pytest

from cost_model.default import MODEL
from tidemill.cost.costing import BROADCAST_ROWS, Facts, Read, Rows, row_bytes
from tidemill.plan.kinds import JoinKind
from tidemill.plan.ops import Join, Keys, Op
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, SNAPSHOT, FormKind

FACTS = Facts(parse_query("source 0 t [a: long] rows=10\nscan 0 [#0 := a]\n"), (), {}, {})
NARROW, WIDE = row_bytes(["long"] * 2), row_bytes(["string"] * 10)
ROWS = 200_000.0


def side(rows: float, width: int = NARROW, form: FormKind = SNAPSHOT) -> Read:
    return Read(0, Rows(rows), form, row_bytes=width)


def cost(op: Op, *reads: Read) -> float:
    return float(MODEL.cost(op, reads, Rows(0.0), FACTS))


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti", "existence"])
def test_what_is_broadcast_is_told_from_bytes(kind: JoinKind) -> None:
    """Spark goes by them; a change, which it is told to broadcast, goes by its rows."""
    join = Join(kind, ())
    narrow, wide = (cost(join, side(1e7), side(ROWS, width)) for width in (NARROW, WIDE))
    assert narrow < wide / 10
    assert cost(join, side(1e7), side(ROWS, WIDE, DELTA)) == narrow
    assert cost(join, side(1e7), side(BROADCAST_ROWS + 1, WIDE, DELTA)) > wide


def test_a_full_join_broadcasts_nothing() -> None:
    join = Join("full", ())
    assert cost(join, side(1e7), side(ROWS)) == cost(join, side(1e7), side(ROWS, WIDE))


def test_each_join_and_each_grouping_is_an_exchange() -> None:
    nothing = [side(0.0)] * 3
    assert cost(Join("inner", ()), *nothing) == 2 * MODEL.exchange
    assert cost(Join("left", ()), *nothing[:2]) == MODEL.exchange
    assert cost(Keys(((),)), nothing[0]) == MODEL.exchange
