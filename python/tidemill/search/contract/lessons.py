"""Likely costs of a plan's steps by the lessons of earlier runs, and the lessons of a run of the plan.

A step has two lessons: one among steps of its name that handle as many rows, to a decade, one among all of its name.
To apply the view's change to its content is one more step by the plan, and several when it is carried out; each has a
part of that estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log10
from typing import Protocol

from tidemill.search.contract.learned import Learned, Seen
from tidemill.search.contract.run_plan import RunPlan

APPLYING = "applying"
READ_FIRST = "change of source"
"""With this the names of steps begin that no plan has: they read a change before the steps that need it."""


class Spent(Protocol):
    """A step that was carried out: its name, CPU milliseconds, and written rows (None: not counted)."""

    @property
    def step(self) -> str: ...

    @property
    def cpu_ms(self) -> int: ...

    @property
    def rows(self) -> int | None: ...


def likely_cost(learned: Learned, plan: RunPlan) -> float:
    """CPU milliseconds that a run is likely to take: its plan's estimate, corrected step by step."""
    estimates = [*_estimates(plan).values(), (_names(plan, APPLYING), plan.applying)]
    likely = ((learned.cost(plan.kind, names, estimate), estimate) for names, estimate in estimates)
    return float(plan.estimated) + sum(corrected - estimate for corrected, estimate in likely if corrected is not None)


def likely_costs(learned: Learned, plan: RunPlan, spent: Iterable[Spent]) -> Iterator[float | None]:
    """Yields the CPU milliseconds that each step was likely to take; None if nothing told. As long as no lesson tells
    the parts of applying apart, the first one has the whole estimate."""
    estimates, applying = _estimates(plan), plan.applying or None
    for each in spent:
        if each.step in estimates:
            names, estimate = estimates[each.step]
            corrected = learned.cost(plan.kind, names, estimate)
            yield estimate if corrected is None else corrected
        elif _applies(each, plan):
            corrected = learned.cost(plan.kind, _names(plan, _part(each)), plan.applying)
            yield applying if corrected is None else corrected
            applying = None
        else:
            yield None


def taught(learned: Learned, plan: RunPlan, spent: Sequence[Spent], *, cold: bool) -> Learned:
    """The lessons after a run. Sizes of changes are taught by incremental runs alone: others have or guess none."""
    after = learned.costs_after(plan.kind, _costs(plan, spent), cold=cold)
    return after.sizes_after(_changes(plan, spent)) if plan.kind == "INCREMENTAL" else after


def _estimates(plan: RunPlan) -> dict[str, tuple[Sequence[str], float]]:
    """The estimated CPU milliseconds of a plan's steps, by name, each with the names of its lessons."""
    return {s.name: (_names(plan, s.name), s.volume.cost) for s in plan.steps if s.volume.cost is not None}


def _names(plan: RunPlan, name: str) -> Sequence[str]:
    """The names of the lessons of a step, or of (a part of) applying, whose rows are those of the view's change."""
    volumes = [s.volume for s in plan.steps if s.name == name] or [s.volume for s in plan.steps if s.target == "delta"]
    rows = max((max(v.read, v.written or 0.0) for v in volumes), default=0.0)
    return f"{name} of 10^{int(log10(max(1.0, rows)))} rows", name


def _applies(spent: Spent, plan: RunPlan) -> bool:
    return not spent.step.startswith(READ_FIRST) and all(s.name != spent.step for s in plan.steps)


def _part(spent: Spent) -> str:
    return f"{APPLYING}: {spent.step}"


def _costs(plan: RunPlan, spent: Iterable[Spent]) -> Iterator[Seen]:
    """Yields what steps took beside their estimates, under each of their names; and what applying took, in sum."""
    estimates, applying = _estimates(plan), 0.0
    for each in spent:
        if each.step in estimates:
            names, estimate = estimates[each.step]
        elif _applies(each, plan):
            names, estimate = _names(plan, _part(each)), plan.applying
            applying += each.cpu_ms
        else:
            continue
        yield from (Seen(name, estimate, each.cpu_ms) for name in names)
    if applying or plan.applying:
        yield from (Seen(name, plan.applying, applying) for name in _names(plan, APPLYING))


def _changes(plan: RunPlan, spent: Iterable[Spent]) -> Iterator[Seen]:
    """Yields the rows of the changes of the view and of states: as expected, and as written."""
    written = {each.step: each.rows for each in spent}
    for step in plan.steps:
        expected, counted = step.volume.written, written.get(step.name)
        if step.change_of is not None and expected is not None and counted is not None:
            yield Seen(step.change_of, expected, counted)
