"""A record of what the scheduler has dealt with of a view's schedule. Each log entry has it, so it is never lost.

A run that is fired at a point deals with all that was due by then. So one commit tells both, and whoever reads the
newest entry knows what is still due. Runs by hand take it over as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REAL = "real"
"""The clock of a service; a simulated one has another name, and its instants do not count for this one."""


@dataclass(frozen=True, slots=True)
class Fired:
    """`instants`: by the name of a clock, then by the place of a point (see `arrivals.place`), the last instant that
    was dealt with (epoch seconds). `cycles`: by the place of an AT PROGRESS point, the run that ended the cycle before
    the one in which it fired last (-1: none did). `seen`: by source, the mark of its position at the last run.
    `ended`: the run that ended the last cycle (-1: none did).
    """

    instants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cycles: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    ended: int = -1

    def then(self, later: Fired) -> Fired:
        """Returns both together; of two marks of a source the later one's.

        >>> one = Fired({"real": {"a": 2.0, "b": 1.0}}, {}, {"t": "1"})
        >>> both = one.then(Fired({"real": {"a": 1.0}, "simulated": {"a": 9.0}}, {"p": 4}))
        >>> both.instants, both.cycles, both.seen
        ({'real': {'a': 2.0, 'b': 1.0}, 'simulated': {'a': 9.0}}, {'p': 4}, {'t': '1'})

        Of simulated clocks only the one that was used last is kept.

        >>> list(both.then(Fired({"another": {"a": 1.0}})).instants)
        ['real', 'another']
        """
        begun = later.instants.keys() - {REAL}
        kept = (clock for clock in self.instants if clock == REAL or not begun or clock in begun)
        instants = {clock: dict(self.instants[clock]) for clock in kept}
        for clock, known in later.instants.items():
            mine = instants.setdefault(clock, {})
            mine |= {place: max(at, mine.get(place, at)) for place, at in known.items()}
        return Fired(
            instants, {**self.cycles, **later.cycles}, {**self.seen, **later.seen}, max(self.ended, later.ended)
        )

    def to_json(self) -> dict[str, Any]:
        instants = {clock: dict(known) for clock, known in self.instants.items()}
        return {"instants": instants, "cycles": dict(self.cycles), "seen": dict(self.seen), "ended": self.ended}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Fired:
        """Returns it as `to_json` gave it. Raises KeyError or ValueError for anything else."""
        instants = {
            str(clock): {str(p): float(at) for p, at in known.items()} for clock, known in data["instants"].items()
        }
        cycles = {str(p): int(run) for p, run in data["cycles"].items()}
        return Fired(
            instants, cycles, {str(name): str(mark) for name, mark in data["seen"].items()}, int(data["ended"])
        )


NOTHING_FIRED = Fired()
