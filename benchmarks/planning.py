"""What the planner's experiments need: queries as the planner gets them, requests over several points, and the planner
without one of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, count
from unittest import mock

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.cost.guesses import SOURCE_ROWS
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.query import Query
from tidemill.rule import engine
from tidemill.rule.result import Result
from tidemill.rule.rule import Rule
from tidemill.search.contract.request import PlanRequest, UpcomingPoint, planned_with
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.space.seed import compose
from tidemill.settings import PACKS, PlannerSettings
from tidemill.tvr.form import DELTA, Span

SHARE = 0.01
"""Of the rows of each source that come between two points."""
PRICE = 0.3
"""Of work at every point but the last."""
NO_LIMIT = 600.0
"""Seconds of a search that is let run to its end."""
DIFFERENCE = "difference"
"""The rule that takes the difference of two snapshots."""


class _Caught(PySparkException):
    """The planner was called: nothing more is wanted of the statement."""


def as_planned(spark: SparkSession, text: str) -> Query:
    """A query as the planner gets it."""
    return requested(spark, f"EXPLAIN INCREMENTAL PLAN {text}", "plan_run").query


def requested(spark: SparkSession, statement: str, asked: str = "SEARCH_POOL.plan") -> PlanRequest:
    """The first request to the planner that a statement makes of what it asks; the statement goes no further."""
    found: list[PlanRequest] = []

    def caught(request: PlanRequest) -> ExplainedPlan:
        found.append(request)
        raise _Caught("caught")

    with mock.patch(f"tidemill.runtime.before.planning.{asked}", caught), suppress(PySparkException):
        spark.sql(statement)
    return found[0]


def at_the_end(request: PlanRequest) -> PlanRequest:
    """The request for a full run once all has come that a request for a first run expects."""
    rows = {n: change.rows for n, change in request.ahead[-1].changes.items()}
    changes = {n: replace(change, rows=rows.get(n, change.rows)) for n, change in request.sources.items()}
    sources = {n: replace(s, rows=rows.get(n, s.rows)) for n, s in request.query.sources.items()}
    query = replace(request.query, sources=sources)
    return replace(request, query=query, sources=changes, ahead=(), price=1.0, full_reason="FIRST", policy="AUTO")


def over(query: Query, points: int, settings: PlannerSettings) -> PlanRequest:
    """A filled view at the first of so many points, of which the last has output."""
    there = {n: _change(s.rows or SOURCE_ROWS, static=s.kind == "static") for n, s in query.sources.items()}
    ahead = [UpcomingPoint(PRICE if i < points else 1.0, i == points, there, i) for i in range(2, points + 1)]
    request = PlanRequest(query, "AUTO", there, frozenset(), first=False, full_reason=None, settings=settings)
    return replace(request, price=PRICE if ahead else 1.0, ahead=planned_with(ahead, last_first=settings.last_first))


def _change(rows: float, *, static: bool) -> SourceChange:
    share = 0.0 if static else rows * SHARE
    return SourceChange(not static, old_readable=True, rows=rows, inserts=share, deletes=share / 2)


def priced(plan: ExplainedPlan) -> float:
    """The estimated cost of all points of a plan; 0 if it leaves all to the last one, to be computed anew."""
    why = plan.explanation
    return sum(cost * point.price for cost, point in zip(why.costs, why.points, strict=True))


def first_packs(number: int) -> frozenset[str]:
    """So many packs: `recompute`, then `delta`, upon which the others build, then these in their order."""
    return frozenset(sorted(PACKS, key=lambda p: (p != "recompute", p != "delta"))[:number])


@contextmanager
def _every_interval_by_itself() -> Iterator[None]:
    """Rules' bodies run for each interval, alike or not."""
    numbers = count()
    with mock.patch("tidemill.rule.engine._what_happens", side_effect=numbers):
        yield


@contextmanager
def _any_order_of_merging() -> Iterator[None]:
    """A change over several steps is put together from every two parts."""

    with mock.patch(
        "tidemill.search.space.space.compose", partial(compose, order=lambda times: combinations(times, 3))
    ):
        yield


@contextmanager
def _differences_pruned() -> Iterator[None]:
    """A difference of snapshots stands only where no other rule has found the change."""

    add = engine._add

    def pruned(memo: Memo, rule: Rule, pack: str, tvr: int, span: Span, result: Result) -> bool:
        known = memo.group(memo.change(tvr, DELTA, span)).expressions if rule.name == DIFFERENCE else []
        return not any(e.rule != DIFFERENCE for e in known) and add(memo, rule, pack, tvr, span, result)

    with mock.patch("tidemill.rule.engine._add", pruned):
        yield


VARIANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "as it is": nullcontext,
    "each interval by itself": _every_interval_by_itself,
    "any order of merging": _any_order_of_merging,
    "differences pruned": _differences_pruned,
}
"""The planner without symmetry of intervals, without the left-deep order, and with Tempura's pruning, which ours does
without: a part that is cheaper to compute again is worth having."""
