"""TPC-DS as Delta tables: queries under STRICT while all tables change.

Each is kept in the default mode, a third of them, chosen by TIDEMILL_SEED, once more in another one. TIDEMILL_QUERIES:
"all" 99, which take most of an hour, numbers of queries, separated by commas, or so many of any, as "any 3";
TIDEMILL_MODES: "all" keeps each in every mode.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks import texts, tpcds
from tests.system import strict
from tests.system.strict import Kept, Rounds, held_through
from tidemill.cost import costing
from tidemill.settings import PACKS

SCALE = 0.01
CHOSEN = os.environ.get("TIDEMILL_QUERIES", "any 3")
SEED = int(os.environ.get("TIDEMILL_SEED", "1"))
CONFS = {**tpcds.CONFS, **strict.CONFS}
MODES = [pack for pack in PACKS if pack != "recompute"]
"""Other modes: the packs that are preferred."""

pytestmark = pytest.mark.slow


@pytest.fixture
def session(spark: SparkSession, db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The 24 tables in a database of the test, current in the session. States are read as if they were big."""
    monkeypatch.setattr(costing, "TOUCHED_FROM_ROWS", 0)
    for name, value in CONFS.items():
        spark.conf.set(name, value)
    tpcds.load_delta(spark, tpcds.files(SCALE))
    yield spark
    for name in CONFS:
        spark.conf.unset(name)


def wanted() -> list[Kept]:
    found = texts.tpcds(small=True)
    dice = random.Random(SEED)
    if CHOSEN != "all":
        some = CHOSEN.startswith("any ")
        names = dice.sample(sorted(found), int(CHOSEN[4:])) if some else [f"q{int(n):02}" for n in CHOSEN.split(",")]
        found = {name: found[name] for name in names}
    views = [Kept(name, query) for name, query in found.items()]
    if os.environ.get("TIDEMILL_MODES") == "all":
        others = [(name, mode) for name in found for mode in MODES]
    else:
        others = [(name, dice.choice(MODES)) for name in dice.sample(sorted(found), -(-len(found) // 3))]
    return views + [Kept(f"{name}_{mode}", found[name], mode) for name, mode in others]


def test_all_queries_hold_under_strict(session: SparkSession) -> None:
    # One statement per table each time. Of the few items, both seeds of dimensions delete some that query 41 has.
    rounds: Rounds = {
        "facts": lambda: [tpcds.facts(1, 0.05)],
        "all tables": lambda: [tpcds.dimensions(session, 10, 0.02) + tpcds.facts(3, 0.03)],
        "facts gone and updated": lambda: [tpcds.deletes(4, 0.03), tpcds.updates(5, 0.03)],
        "all tables again": lambda: [tpcds.facts(6, 0.03) + tpcds.dimensions(session, 7, 0.02)],
    }
    held_through(session, CONFS, wanted(), rounds)
