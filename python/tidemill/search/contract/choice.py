"""A choice of kept states: what it was made for, and what it knows of each state that could be kept.

The log has the choice of the last run that chose, so a later run can tell whether the choice still holds, and what a
state is worth without searching again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

DECADE = 10.0
"""Factor by which arrivals, or the rows of a source, may differ from what a choice was made for."""
TWICE = 2.0
"""The same where states were given up because runs with them took too long: the next choice may be another one soon."""
LEAST_ROWS = 0.5
"""With fewer expected rows in a cycle, a source does not change."""
NEAR_BUDGET = 0.9
"""Fraction of a budget from which on the states are merged to make room for the next segments."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of a state.

    Attributes:
        bytes: of its files: as measured, else estimated.
        gain: CPU milliseconds that it saves a likely run, its upkeep and its part of the cost of making it taken off;
            None if nothing computes the change without it.
        measured: the bytes were measured.
    """

    bytes: float
    gain: float | None
    measured: bool = False

    @property
    def density(self) -> float:
        """CPU milliseconds saved per byte; infinite if the state cannot be missed."""
        return float("inf") if self.gain is None else self.gain / max(1.0, self.bytes)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances that states are chosen for.

    Attributes:
        packs: those that may be used.
        budget: bytes that kept states may take; None if there is no limit.
        model: the name of the cost model, which tells what is saved.
        objective: how costs are compared (see settings).
        full: a likely run may be full because that is cheaper.
        arrivals: expected rows of a likely run, inserted and deleted, by the names of the sources.
        rows: rows of the sources, by their names, where they are known.
        unpaid: CPU milliseconds of an incremental run, if the states were given up because it took too long; None else.
    """

    packs: frozenset[str] = frozenset()
    budget: int | None = None
    model: str = "default"
    full: bool = False
    arrivals: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    unpaid: float | None = None
    objective: str = "priced"

    def like(self, then: Circumstances) -> bool:
        """True if a choice made for `then` still holds: the same budget, unit of cost and objective, no new packs, the
        same sources that change, arrivals and sizes within a decade (or a factor of two), and full runs if they were
        counted on. What was not recorded then does not count.

        >>> then = Circumstances(arrivals={"t": 100.0, "u": 0.0}, rows={"t": 1e6})
        >>> now = replace(then, arrivals={"t": 900.0, "u": 0.0})
        >>> now.like(then), replace(now, arrivals={"t": 0.0, "u": 5.0}).like(then), replace(now, budget=0).like(then)
        (True, False, False)
        """
        fixed = (self.budget, self.model, self.objective)
        if not self.packs <= then.packs or fixed != (then.budget, then.model, then.objective):
            return False
        if then.full and not self.full:
            return False
        factor = DECADE if then.unpaid is None else TWICE
        return _near(self.arrivals, then.arrivals, factor) and _near(self.rows, then.rows, factor)


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of states.

    Attributes:
        made_for: the circumstances.
        worth: of every candidate that was weighed, by its name.
        curve: the cheapest sets that were found, each cheaper than all that take fewer bytes: bytes, and CPU
            milliseconds of a likely run.
    """

    made_for: Circumstances = field(default_factory=Circumstances)
    worth: Mapping[str, Worth] = field(default_factory=dict)
    curve: tuple[tuple[float, float], ...] = ()

    @property
    def packs(self) -> frozenset[str]:
        """The packs among which the states were chosen."""
        return self.made_for.packs

    def seen(self, measured: Mapping[str, int]) -> Choice:
        """The same with the bytes that states were seen to take."""
        known = {
            n: replace(self.worth.get(n, Worth(0.0, 0.0)), bytes=float(b), measured=True) for n, b in measured.items()
        }
        return replace(self, worth={**self.worth, **known})

    def to_json(self) -> dict[str, Any]:
        made_for = asdict(self.made_for) | {"packs": sorted(self.made_for.packs)}
        worth = {name: asdict(worth) for name, worth in self.worth.items()}
        return {"made_for": made_for, "worth": worth, "curve": [list(point) for point in self.curve]}

    @staticmethod
    def from_json(data: Any) -> Choice:
        """The choice of a log entry; earlier versions wrote its packs alone."""
        if isinstance(data, list):
            return Choice(Circumstances(frozenset(data)))
        made_for = data["made_for"]
        return Choice(
            Circumstances(**{**made_for, "packs": frozenset(made_for["packs"])}),
            {name: Worth(**worth) for name, worth in data["worth"].items()},
            tuple((taken, cost) for taken, cost in data["curve"]),
        )


def _near(now: Mapping[str, float], then: Mapping[str, float], factor: float) -> bool:
    """True if no number is zero in one mapping alone, or off by more than a factor; of the names in both."""
    both = [(now[name], then[name]) for name in now.keys() & then.keys()]
    return all(
        (a < LEAST_ROWS) == (b < LEAST_ROWS) and (a < LEAST_ROWS or max(a, b) <= factor * min(a, b)) for a, b in both
    )
