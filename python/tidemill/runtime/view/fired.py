"""A record of what the scheduler has dealt with of a view's schedule. Each log entry has it, so it is never lost.

A run that is fired at a point deals with all that was due by then. So one commit tells both, and whoever reads the
newest entry knows what is still due. Runs by hand take it over as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

REAL = "real"
"""The clock of a service; a simulated one has another name, and its instants do not count for this one."""


@dataclass(frozen=True, slots=True)
class Fired:
    """`instants`: by the name of a clock, then by the place of a point (see `arrivals.place`), the last instant that
    was dealt with (epoch seconds). `cycles`: by the place of an AT PROGRESS point, the run that ended the cycle before
    the one in which it fired last (-1: none did). `seen`: by source, the mark of its position at the last run.
    `ended`: the run that ended the last cycle (-1: none did). `entries`: the source entries of the query as the last
    run analysed it, if it reads other tables than the definition knows (`other_tables`).
    """

    instants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cycles: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    ended: int = -1
    entries: tuple[Mapping[str, Any], ...] = ()

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
        cycles, seen = {**self.cycles, **later.cycles}, {**self.seen, **later.seen}
        return Fired(instants, cycles, seen, max(self.ended, later.ended), later.entries or self.entries)

    def to_json(self) -> dict[str, Any]:
        instants = {clock: dict(known) for clock, known in self.instants.items()}
        told = {"instants": instants, "cycles": dict(self.cycles), "seen": dict(self.seen), "ended": self.ended}
        return {**told, "entries": [dict(entry) for entry in self.entries]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Fired:
        """Returns it as `to_json` gave it. Raises KeyError or ValueError for anything else."""
        instants = {
            str(clock): {str(p): float(at) for p, at in known.items()} for clock, known in data["instants"].items()
        }
        cycles = {str(p): int(run) for p, run in data["cycles"].items()}
        seen = {str(name): str(mark) for name, mark in data["seen"].items()}
        entries = tuple(dict(entry) for entry in data.get("entries") or ())
        return Fired(instants, cycles, seen, int(data["ended"]), entries)


def other_tables(known: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Returns the source entries `now`; nothing if they are the same tables as those of `known`.

    >>> table = {"name": "t", "kind": "files", "id": "1", "location": {"roots": ["/t"]}, "rows": 5}
    >>> other_tables([table], [{**table, "rows": 6}])
    ()
    >>> [entry["kind"] for entry in other_tables([table], [{**table, "kind": "delta"}])]
    ['delta']
    """
    found = tuple(now)
    return () if _tables(found) == _tables(known) else found


def _tables(entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {str(entry["name"]): (entry["kind"], entry["id"], entry["location"]) for entry in entries}


NOTHING_FIRED = Fired()
