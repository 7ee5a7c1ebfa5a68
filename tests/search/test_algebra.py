"""Random views over random changes, with every pack, rules off, costs shaken: the algebra is exact."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, event, given, seed, settings
from hypothesis import strategies as st

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.moments import Changes
from tests.model.scalars import INF, NAN
from tests.model.semantics import Record
from tests.search.random_trees import Draw, queries
from tidemill.rule.registry import load_rules
from tidemill.search.contract.run_plan import read_by
from tidemill.settings import PACKS

CLOCK = 3
SMALL = st.sampled_from([None, 0, 1, 2])
FLOATS = st.sampled_from([None, Fraction(1, 10), 1, Fraction(10**16), Fraction(-(10**16)), NAN, INF, -INF])
PLAIN_FLOATS = st.sampled_from([None, Fraction(1, 10), 1, Fraction(10**16), Fraction(-(10**16))])
RECORDS = st.builds(lambda a, b, x: {"a": a, "b": b, "x": x}, SMALL, SMALL, FLOATS)
TIMES = st.integers(-1, 3)
TABLES = st.fixed_dictionaries(
    {
        **{n: st.lists(RECORDS, max_size=5) for n in range(3)},
        CLOCK: st.builds(lambda now: [{"now": now}], TIMES),
    }
)
MODES = st.builds(
    Mode,
    prefer=st.sampled_from([None, None, *PACKS]),
    off=st.one_of(st.just(frozenset()), st.frozensets(st.sampled_from([r.name for r in load_rules()]), max_size=4)),
    shake=st.one_of(st.none(), st.integers(0, 1000)),
    keep=st.sampled_from([None, None, 0.0, 0.5, 1.0]),
    readable=st.sampled_from([True, True, True, False]),
    telling=st.sampled_from([None, None, None, frozenset({0, 1, CLOCK})]),
    lose=st.sampled_from([0.0, 0.0, 0.5]),
    anew=st.sampled_from([0.0, 0.0, 0.5]),
    fewer=st.sampled_from([0.0, 0.5]),
    wavers=st.sampled_from([0.0, 0.5]),
    timed=st.sampled_from([False, True]),
    tells=st.sampled_from([0.0, 1.0]),
    policy=st.sampled_from(["AUTO", "AUTO", "AUTO", "FULL"]),
    compact=st.sampled_from([0.0, 0.5]),
    early=st.sampled_from([None, 0.5, 1.0]),
)


@st.composite
def changes(draw: Draw, tables: dict[int, list[Record]]) -> Changes:
    """Inserts, deletes and updates on one or more sources, with a feed that is not net; or inserts alone. The clock
    moves, or not."""
    feed: dict[int, list[tuple[Record, int]]] = {}
    for number in draw(st.frozensets(st.sampled_from(sorted(tables)), min_size=1)):
        rows = list(tables[number])
        if number == CLOCK:
            now = {"now": draw(TIMES)}
            feed |= {CLOCK: [(rows[0], -1), (now, 1)]} if now != rows[0] else {}
            continue
        grows = draw(st.sampled_from([False, False, True]))
        gone = [r for r in rows if not grows and draw(st.sampled_from([False, False, True]))]
        come = draw(st.lists(RECORDS, max_size=3))
        noise = [] if grows else draw(st.lists(RECORDS, max_size=1))
        pairs = [(r, n) for r in noise for n in (1, -1)]
        feed[number] = [*((r, -1) for r in gone), *((r, 1) for r in come), *pairs]
    return feed


PRICES = st.sampled_from([0.0, 1e-6, 0.3, 1.0])
STILL = st.frozensets(st.integers(0, 3))


def now_of(view: View) -> dict[int, list[Record]]:
    return {n: list(rows) for n, rows in view.tables.items()}


def maintain(data: st.DataObject, text: str, mode: Mode) -> None:
    tables = data.draw(TABLES, "tables")
    view = View(
        text, tables, mode, seed=data.draw(st.integers(0, 9)), deferred=data.draw(st.sampled_from([False, False, True]))
    )
    for _ in range(data.draw(st.integers(1, 3), "rounds")):
        for _ in range(data.draw(st.sampled_from([0, 0, 1, 2]), "runs without output")):
            plan = view.early(
                data.draw(changes(now_of(view)), "early changes"),
                price=data.draw(PRICES, "price"),
                ahead=data.draw(st.lists(PRICES, max_size=2), "prices ahead"),
                still=data.draw(st.lists(STILL, min_size=1, max_size=3), "expected not to change"),
            )
            event(f"early: {', '.join(sorted({s.target for s in plan.steps})) or 'nothing'}")
        plan = view.refresh(data.draw(changes(now_of(view)), "changes"))
        event(view.kinds[-1])
        event(f"reads what was held: {'held' in read_by(plan.steps)}")


EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "0"))
"""How many examples, others each time; 0: those of the parts below, the same each time."""
SEED = int(os.environ.get("TIDEMILL_SEED", "0"))
FEW, EACH, PARTS = 16, 31, 6
"""Examples of the quick suite; of each part of the longer one, and how many parts."""
RUN = settings(deadline=None, suppress_health_check=list(HealthCheck))
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]


@settings(RUN, max_examples=EXAMPLES or FEW, derandomize=not EXAMPLES, phases=PHASES)
@given(st.data(), queries(), MODES)
def test_a_view_is_its_query_after_every_run(data: st.DataObject, text: str, mode: Mode) -> None:
    maintain(data, text, mode)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("part", range(PARTS))
def test_many_views_are_their_queries_after_every_run(part: int) -> None:
    @seed(SEED + part)
    @settings(RUN, max_examples=EACH, phases=PHASES)
    @given(st.data(), queries(), MODES)
    def check(data: st.DataObject, text: str, mode: Mode) -> None:
        maintain(data, text, mode)

    check()
