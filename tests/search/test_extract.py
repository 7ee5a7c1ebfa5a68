"""Extraction: the cheapest of what computes a group, and no cycles."""

from __future__ import annotations

from typing import Any

import pytest

from cost_model.default import MODEL
from tidemill.cost.costing import CpuMs, Facts
from tidemill.cost.kept import KeptRows, StateRows
from tidemill.memo.memo import Memo, Node, Ref
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Changes, Net, Scan, StateScan
from tidemill.search.choose.allowed import AllBut, Allowed
from tidemill.search.choose.extract import Extractor
from tidemill.search.space.space import transition_of
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, NEW, OLD, SNAPSHOT, SYMBOLIC, at, over
from tidemill.tvr.timeline import Timeline

CHANGE = SourceChange(changed=True, old_readable=True, rows=1e7, inserts=1e4, deletes=1e4)


@pytest.mark.parametrize(
    ("direct", "deletes", "netted"),
    [(True, 9_000, False), (True, 40_000, False), (True, 60_000, True), (False, 10, True), (False, 0, False)],
)
def test_small_direct_changes_are_looked_at_as_they_are(direct: bool, deletes: float, netted: bool) -> None:
    source = SourceChange(True, True, rows=1e6, inserts=10.0, deletes=deletes, direct=direct)
    assert bool(transition_of({0: source}).mixed) == netted


def cyclic() -> tuple[Memo, Extractor, int, int]:
    """A delta from the new snapshot, the new snapshot from the delta; the delta from the source as well."""
    query = parse_query("source 0 t [a: long, b: long] rows=10000000\nscan 0 [#0 := a, #1 := b]")
    memo = Memo(query, Timeline((transition_of({0: CHANGE}),)))
    memo.register(query.root)
    delta, new = memo.change(0, DELTA), memo.moment(0, SNAPSHOT, old=False)
    memo.add(delta, Node(Net((0, 1)), (Ref(0, at(SNAPSHOT, NEW)),)), "r", "p")
    memo.add(new, Node(Net((0, 1)), (Ref(0, over(DELTA, SYMBOLIC)),)), "r", "p")
    facts = Facts(query, ({0: CHANGE},), {})
    return memo, Extractor(memo, MODEL, facts), delta, new


def test_a_cycle_computes_nothing() -> None:
    _, extractor, delta, new = cyclic()
    assert extractor.best(delta) is None
    assert extractor.cost(new) == float("inf")


def test_a_cycle_is_entered_where_it_is_cheapest() -> None:
    memo, _, delta, new = cyclic()
    columns = ((0, "a"), (1, "b"))
    memo.add(delta, Node(Changes(0, columns, OLD, NEW)), "r", "p")
    memo.add(new, Node(Scan(0, columns, NEW)), "r", "p")
    extractor = Extractor(memo, MODEL, Facts(memo.query, ({0: CHANGE},), {}))
    choices = [extractor.best(g) for g in (delta, new)]
    assert [type(c.expression.op) for c in choices if c and c.expression] == [Changes, Net]
    extractor.stage(delta)
    staged = extractor.best(delta)
    assert staged is not None
    assert staged.expression is None
    only = Extractor(
        memo, MODEL, Facts(memo.query, ({0: CHANGE},), {}), lambda _g, e: not isinstance(e.op, Changes | Net)
    )
    assert only.best(delta) is None


def test_a_change_of_fewer_rows_wins_where_rows_are_dear_to_write() -> None:
    """The cheapest way may come to more rows than another one, and they cost as much to apply as others."""
    memo, _, delta, _ = cyclic()
    columns = ((0, "a"), (1, "b"))
    memo.add(delta, Node(Changes(0, columns, OLD, NEW)), "r", "p")
    memo.add(delta, Node(StateScan("s", "", ())), "r", "p")
    facts = Facts(memo.query, ({0: CHANGE},), {}, kept=KeptRows({"s": StateRows(21_000.0)}))

    def found(each: float) -> str:
        handling = {(delta, 0): lambda rows: CpuMs(rows * each)}
        extractor = Extractor(memo, MODEL, facts, handling=handling)
        best, plan = extractor.best(delta), extractor.planned([delta], 0)
        assert best is not None
        assert best.expression is not None
        assert best.cost == pytest.approx(extractor.costs(plan)[0])
        assert best.cost == pytest.approx(best.own + sum(extractor.handled(plan).values()))
        return type(best.expression.op).__name__

    assert (found(0.0), found(1.0)) == ("StateScan", "Changes")


def test_what_a_plan_may_use() -> None:
    """Each restriction bars what it names, and nothing else."""
    memo, _, delta, new = cyclic()
    columns = ((0, "a"), (1, "b"))
    memo.add(delta, Node(Net((0,)), (Ref(0, at(SNAPSHOT, NEW)),)), "r", "recompute")
    memo.add(new, Node(Scan(0, columns, NEW)), "r", "core")
    memo.add(new, Node(StateScan("s", "", ())), "r", "core")

    def refused(**restrictions: Any) -> list[tuple[int, str, str]]:
        allowed = Allowed(memo, **restrictions)
        places = [(group, e) for group in (delta, new) for e in memo.group(group).expressions]
        return [(g, type(e.op).__name__, e.pack) for g, e in places if not allowed.allows(g, e)]

    changes = [(delta, "Net", "p"), (delta, "Net", "recompute")]
    assert refused() == refused(states={"s"}) == refused(recompute={delta}) == []
    assert refused(barred={(delta, Net)}) == changes
    assert refused(past=False) == refused(states=()) == [(new, "StateScan", "core")]
    assert refused(packs={"core", "p"}) == refused(recompute=()) == refused(recompute=AllBut({delta})) == changes[1:]
