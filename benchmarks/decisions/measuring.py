"""Runs one view's alternatives through changes, and notes each run: plan, costs, estimates, and its steps."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from benchmarks.decisions.judged import AUTO, TWINS, Cell
from tidemill.runtime.run import attempt
from tidemill.runtime.run.occasion import with_split
from tidemill.runtime.run.steps import carry_out
from tidemill.runtime.view.record import RunRecord
from tidemill.search.contract.past import Past
from tidemill.search.contract.run_plan import RunPlan
from tidemill.settings import PACKS

PREFER = "spark.tidemill.method.prefer"
FULL = "full"
BASE = (AUTO, FULL, *TWINS)
WARM = 2
"""Rounds of each change in which AUTO has a run of either kind."""
TRIED = 12
"""Largest number of rounds after these in which AUTO chooses for itself and tries other methods. Then the others catch
up, and one more round precedes the first that is measured."""
COLD = 1
"""One more at a view's first change, and runs of all in each: code is new, and AUTO does not count cold runs."""
HOPELESS = 3.0
"""An alternative that takes so many times the cheapest in the last warm round is not measured: it is not the best."""
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A view of its own: how it is to be maintained."""

    name: str
    policy: str
    prefer: str | None = None

    @staticmethod
    def named(name: str) -> Alternative:
        """That of `BASE` or of a pack."""
        if name in PACKS:
            return Alternative(name, "INCREMENTAL", name)
        return Alternative(name, {AUTO: "AUTO", FULL: "FULL"}.get(name, "INCREMENTAL"))

    @property
    def view(self) -> str:
        return "v_" + self.name.lower().replace(" ", "_")


class Witness:
    """Keeps the plan and the record of each run that this process carries out."""

    def __init__(self) -> None:
        self.plan: RunPlan | None = None
        self.record: RunRecord | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        def carried_out(plan: RunPlan, *others: Any) -> Any:
            self.plan = plan
            return carry_out(plan, *others)

        def recorded(*told: Any) -> RunRecord:
            self.record = with_split(*told)
            return self.record

        with mock.patch.object(attempt, "carry_out", carried_out), mock.patch.object(attempt, "with_split", recorded):
            yield

    def forget(self) -> None:
        self.plan = self.record = None


def plan_name(plan: RunPlan | None) -> str:
    """A name that plans share which do the same: their steps but for compactions, which depend on earlier runs."""
    if plan is None:
        return "none"
    steps = [(s.target, s.state, s.mode, s.plan, s.order) for s in plan.steps if s.mode != "compact"]
    return f"{plan.kind} {hashlib.sha256(json.dumps(steps, default=repr).encode()).hexdigest()[:12]}"


@dataclass
class Measuring:
    """The alternatives of one view in a session.

    `change`: applies a change of this name; `number` tells one from the next. `about`: what its cells are named by.
    `packs`: those that may be preferred. `alike`: also those that have another alternative's plan at the first change,
    and so most likely at the others.
    """

    spark: SparkSession
    query: str
    change: Callable[[str, int], None]
    about: Mapping[str, Any]
    rounds: int
    packs: Collection[str]
    alike: bool = True
    seed: int = 0
    _made: dict[str, Alternative] = field(default_factory=dict)
    _refused: bool = False
    _changes: int = 0

    def cells(self, changes: Sequence[str]) -> Iterator[Figures]:
        """A cell for each of these changes. The views are gone at the end."""
        self._witness = Witness()
        self._dice = random.Random(f"{self.seed} {sorted(self.about.items())}")
        try:
            with self._witness.watching():
                for number, change in enumerate(changes):
                    yield self._cell(change, first=number == 0)
                self._verify()
        finally:
            for each in self._made.values():
                self.spark.sql(f"DROP INCREMENTAL VIEW {each.view}")

    def _cell(self, change: str, *, first: bool) -> Figures:
        runs: list[Figures] = []
        if first:
            self._make(TWINS[0])
            self._apply(change)
            able = self._able()
            runs.append(self._run(self._made[TWINS[0]], 0, measured=False))
            for name in (*BASE, *able):
                if name not in self._made:
                    self._make(name)
        warm = WARM + COLD if first else WARM
        for number in range(1, warm + 1):
            self._apply(change)
            # What is warm already needs one round of this change; AUTO has to see each kind of run twice.
            for each in self._shuffled(self._made if first else [AUTO]):
                runs.append(self._learning(each, number))
            if first and number == 1 and not self.alike:
                self._drop_alike(runs)
        tried = warm + TRIED
        for number in range(warm + 1, tried + 1):
            self._apply(change)
            runs.append(self._run(self._made[AUTO], number, measured=False))
            if self._settled():
                tried = number
                break
        warm = tried + 2
        for number in (warm - 1, warm):
            self._apply(change)
            for each in self._shuffled(self._made):
                runs.append(self._run(each, number, measured=False))
        for number in range(warm + 1, warm + self.rounds + 1):
            self._apply(change)
            for each in self._shuffled(self._worth_measuring(runs, warm)):
                runs.append(self._run(each, number, measured=True))
        found: Figures = {**self.about, "change": change, "runs": runs}
        cell = Cell(found)
        if not cell.right():
            found["why"] = self._why(change, cell.best)
        return found

    def _settled(self) -> bool:
        """True if the run at hand leaves no other methods to be tried."""
        plan, record = self._witness.plan, self._witness.record
        if plan is None or record is None or plan.kind == "FULL" or not plan.rivals or plan.compared is None:
            return True
        before = Past(record.past.runs[1:])
        made = record.past.decide(plan.compared[0], plan.rivals, 0.0)
        return before.judges(plan.rivals[0][1]) and made.methods == made.known

    def _drop_alike(self, runs: Sequence[Figures]) -> None:
        """Drops the packs that have the plan of another alternative."""
        plans = {run["alternative"]: run["plan"] for run in runs}
        seen = {plans[name] for name in BASE}
        for name in [name for name in self._made if name not in BASE]:
            if plans[name] in seen:
                self.spark.sql(f"DROP INCREMENTAL VIEW {self._made.pop(name).view}")
            seen.add(plans[name])

    def _worth_measuring(self, runs: Sequence[Figures], warm: int) -> list[str]:
        """AUTO, both twins, and one alternative for each other plan that may be the best."""
        last = {run["alternative"]: run for run in runs if run["round"] == warm}
        least = min(run["cpu_ms"] for run in last.values())
        plans = {last[TWINS[0]]["plan"]}
        found = [AUTO, *TWINS]
        for name, run in last.items():
            if name not in found and run["plan"] not in plans and run["cpu_ms"] <= max(HOPELESS * least, least + 100):
                found.append(name)
                plans.add(run["plan"])
        return found

    def _shuffled(self, names: Collection[str]) -> list[Alternative]:
        found = [self._made[name] for name in names]
        self._dice.shuffle(found)
        return found

    def _apply(self, change: str) -> None:
        self._changes += 1
        self.change(change, self._changes)

    # -- statements ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _preferring(self, each: Alternative) -> Iterator[None]:
        if each.prefer is not None:
            self.spark.conf.set(PREFER, each.prefer)
        try:
            yield
        finally:
            self.spark.conf.unset(PREFER)

    def _make(self, name: str) -> None:
        each = Alternative.named(name)
        policy = "AUTO" if self._refused and each.policy == "INCREMENTAL" else each.policy

        def create(policy: str) -> None:
            clauses = f"SCHEDULE (ON DEMAND) REFRESH POLICY {policy}"
            self.spark.sql(f"CREATE INCREMENTAL VIEW {each.view} {clauses} AS {self.query}")

        with self._preferring(each):
            try:
                create(policy)
            except PySparkException as refused:
                if refused.getCondition() != "TIDEMILL_NOT_INCREMENTAL":
                    raise
                self._refused = True
                create("AUTO")
        self._made[name] = each

    def _able(self) -> list[str]:
        """The packs that have a plan for the change at hand."""
        shown = self.spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {self._made[TWINS[0]].view}").collect()[0].plan
        able = {other["pack"] for other in json.loads(shown)["alternatives"]}
        return [pack for pack in PACKS if pack in able and pack in self.packs]

    def _learning(self, each: Alternative, number: int) -> Figures:
        """A run that is not measured; AUTO has one of either kind, whatever it would choose."""
        if each.name != AUTO or self._refused:
            return self._run(each, number, measured=False)
        policy = f"ALTER INCREMENTAL VIEW {each.view} SET REFRESH POLICY"
        self.spark.sql(f"{policy} INCREMENTAL")
        found = self._run(each, number, measured=False)
        self.spark.sql(f"{policy} AUTO")
        self.spark.sql(f"REFRESH INCREMENTAL VIEW {each.view} FULL")
        return found

    def _run(self, each: Alternative, number: int, *, measured: bool) -> Figures:
        self._witness.forget()
        with self._preferring(each):
            row: Row = self.spark.sql(f"REFRESH INCREMENTAL VIEW {each.view}").collect()[0]
        record, plan = self._witness.record, self._witness.plan
        steps = () if record is None else record.steps
        told = ("step", "cpu_ms", "jobs", "rows_read", "rows", "estimated_cost", "estimated_rows")
        return {
            "alternative": each.name,
            "round": number,
            "measured": measured,
            "kind": row.kind,
            "reason": row.reason,
            "methods": list(row.methods or ()),
            "plan": plan_name(plan),
            "compared": None if plan is None else plan.compared,
            "cpu_ms": row.cpu_ms,
            "wall_ms": row.duration_ms,
            "jobs": row.jobs,
            "estimated_cost": row.estimated_cost,
            "rows_out": None if row.rows_out is None else row.rows_out.asDict(),
            "steps": [{name: getattr(step, name) for name in told} for step in steps],
        }

    def _why(self, change: str, best: str) -> dict[str, str]:
        """What is estimated of AUTO's plan and of the better one for one more such change, by operator."""
        self._apply(change)
        found = {}
        for each in (self._made[AUTO], self._made[best]):
            with self._preferring(each):
                found[each.name] = self.spark.sql(f"EXPLAIN INCREMENTAL COST VIEW {each.view}").collect()[0].plan
                self.spark.sql(f"REFRESH INCREMENTAL VIEW {each.view}")
                shown = partial(self.spark.sql, f"EXPLAIN INCREMENTAL COST VIEW {each.view}")
                found[f"{each.name}, then"] = shown().collect()[0].plan
        return found

    def _verify(self) -> None:
        """AUTO's view and another one must equal the query."""
        others = [name for name in self._made if name != AUTO]
        for name in (AUTO, self._dice.choice(others)):
            row = self.spark.sql(f"VERIFY INCREMENTAL VIEW {self._made[name].view}").collect()[0]
            assert row.matches, f"{name}: {row.missing} rows missing, {row.unexpected} unexpected"
