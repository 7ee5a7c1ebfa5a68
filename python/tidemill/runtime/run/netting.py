"""Nets small changes before a run is planned: a change that touches no column that the query reads is no change.

The log of a source tells how many rows changed, not which columns. An update of a dimension's unread column would be
planned like any other: as a join with all facts. One small job tells, and is paid only where the plan is dear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.cost.guesses import MOST_NETTED, MOST_READ_TO_NET, NETTING_PAYS_FROM
from tidemill.plan.change import SourceChange
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Col, Lit, fn
from tidemill.plan.ops import Scan
from tidemill.plan.tree import Tree
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.content.jobs import SparkJobs
from tidemill.runtime.run.binder import Binder
from tidemill.runtime.view.views import View
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.lower.lowered import Blocks, Lowered
from tidemill.wire import nodes


def without_unseen_changes(working: Jvm, view: View, situation: Situation, plan: RunPlan) -> Situation:
    """Returns the situation without changes that come to nothing in the columns that the query reads.

    It is the same situation if there are none, or if finding out does not pay. `plan`: the plan with all changes. One
    Spark job runs, if any.
    """
    if situation.first or situation.between or plan.estimated < NETTING_PAYS_FROM:
        return situation
    if plan.kind == "FULL" and not str(plan.reason).startswith("COST"):
        return situation
    may = [n for n, change in sorted(situation.changes.items()) if _may_come_to_nothing(change)]
    if not may:
        return situation
    try:
        rows = _rows_left(working, view, situation, may)
    except JvmFailure:
        return situation  # the run itself meets the failure, and explains it
    unseen = {n: situation.changes[n] for n, left in zip(may, rows, strict=True) if not left}
    quiet = {n: replace(change, changed=False) for n, change in unseen.items()}
    return replace(situation, changes={**situation.changes, **quiet}, unseen=unseen) if unseen else situation


def _may_come_to_nothing(change: SourceChange) -> bool:
    """True for a small change with as many rows deleted as inserted, as updates have."""
    if not change.changed or change.reason is not None or change.inserts is None or change.deletes is None:
        return False
    small = change.inserts + change.deletes <= MOST_NETTED and (change.read or 0.0) <= MOST_READ_TO_NET
    return small and change.inserts == change.deletes > 0


def _rows_left(working: Jvm, view: View, situation: Situation, sources: Sequence[int]) -> list[int]:
    """Counts, for each source, the distinct rows of its change that are left after netting."""
    query = situation.query
    blocks = Blocks(ColumnIds(query))
    number, rows = blocks.column("long", "source"), blocks.column("long", "rows")
    parts = []
    for source in sources:
        columns = {field: c for c, field in _read(query.root, source)}
        changes = nodes.changes(source, [(c, f) for f, c in columns.items()], blocks.count, 0, 1)
        ids = tuple(columns.values())
        net = blocks.net(ids, Lowered(changes, ids, blocks.count))
        counted = nodes.aggregate([], [(rows, fn("count", Lit(1, "long")))], net.node)
        parts.append(((number, rows), nodes.project([(number, Lit(source, "long")), (rows, Col(rows))], counted)))
    plan = parts[0][1] if len(parts) == 1 else nodes.union((number, rows), *parts)
    jobs = SparkJobs(working, situation.document["query"], view.definition.qualified, view.next_run, situation.clock)
    bound = Binder(situation.positions, {}, ()).bind(plan)
    left = {int(n): int(count) for n, count in jobs.rows(bound, [(number, "source"), (rows, "rows")], step="net")}
    return [left[source] for source in sources]


def _read(tree: Tree, source: int) -> list[tuple[int, str]]:
    """Lists the columns of a source that a query reads, each with its field."""
    own = tree.op.columns if isinstance(tree.op, Scan) and tree.op.source == source else ()
    return [*own, *(column for below in tree.inputs for column in _read(below, source))]
