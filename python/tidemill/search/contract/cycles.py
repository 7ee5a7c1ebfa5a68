"""The last cycles of a view's schedule: what came to each source in each, run by run with output. States are chosen for
more of the same.

Each log entry hands them on to the next one, so a run reads no older entries for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

Rows: TypeAlias = tuple[float, float]
"""Inserts and deletes."""
Source = TypeVar("Source", str, int)
"""The name of a source, or its number in the query."""
REMEMBERED = 7
"""Number of ended cycles that are remembered: a week of days."""
KINDS = 8
"""Number of kinds of runs in a cycle from which on those of one price are taken for alike: points may fire any number
of times, with other sources changed each time."""


@dataclass(frozen=True, slots=True)
class Outputs(Generic[Source]):
    """The runs with output of a cycle that are alike: they have the same price, and the same sources have changed.

    Attributes:
        price: of a unit of their work.
        rows: what came to each source since the run before, in all of them together; None if nobody knows.
        runs: their number.
        last: they are those of the schedule's last point.
    """

    price: float
    rows: Mapping[Source, Rows | None]
    runs: int = 1
    last: bool = True

    def like(self, other: Outputs[Source]) -> bool:
        """True if the runs of both are of one kind.

        >>> Outputs(0.2, {"t": (5, 0), "u": (0, 0)}).like(Outputs(0.2, {"t": (3, 1)}))
        True
        """
        return self.priced_like(other) and self._changed == other._changed

    def priced_like(self, other: Outputs[Source]) -> bool:
        """True if the runs of both are of points with one price, and both of the last one or not."""
        return (self.price, self.last) == (other.price, other.last)

    @property
    def _changed(self) -> frozenset[Source]:
        return frozenset(name for name, rows in self.rows.items() if rows is None or sum(rows) > 0)

    def joined(self, other: Outputs[Source]) -> Outputs[Source]:
        """Both together, taken for one kind of runs.

        >>> Outputs(1.0, {"t": (5, 0)}).joined(Outputs(1.0, {"t": (2, 1)}))
        Outputs(price=1.0, rows={'t': (7, 1)}, runs=2, last=True)
        """
        return replace(self, rows=_sum(self.rows, other.rows), runs=self.runs + other.runs)


@dataclass(frozen=True, slots=True)
class Cycle(Generic[Source]):
    """A cycle that has ended: the run that ended it, and its runs with output by their kinds."""

    run: int
    outputs: tuple[Outputs[Source], ...]

    @property
    def rows(self) -> Mapping[Source, Rows | None]:
        """Rows of all that came to each source; None if nobody knows."""
        found: Mapping[Source, Rows | None] = {}
        for some in self.outputs:
            found = _sum(found, some.rows)
        return found

    def numbered(self: Cycle[str], names: Mapping[int, str]) -> Cycle[int]:
        """The same by the numbers of sources, whose names these are."""

        def of(some: Outputs[str]) -> Outputs[int]:
            rows = {n: some.rows[name] for n, name in names.items() if name in some.rows}
            return Outputs(some.price, rows, some.runs, some.last)

        return Cycle(self.run, tuple(map(of, self.outputs)))


@dataclass(frozen=True, slots=True)
class Cycles:
    """The last cycles.

    Attributes:
        ended: those that have ended, the oldest first.
        present: the runs with output of the present one.
    """

    ended: tuple[Cycle[str], ...] = ()
    present: tuple[Outputs[str], ...] = ()

    def then(self, run: int, came: Mapping[str, Rows | None], *, last: bool, price: float = 1.0) -> Cycles:
        """The cycles after a run with output: `came` since the one before; `last`: it ends the cycle.

        >>> cycles = Cycles().then(1, {"t": (5, 0)}, last=False, price=0.2).then(2, {"t": (2, 1)}, last=True)
        >>> [cycle.rows for cycle in cycles.ended], cycles.present
        ([{'t': (7, 1)}], ())
        >>> [(some.price, some.rows) for some in cycles.ended[0].outputs]
        [(0.2, {'t': (5, 0)}), (1.0, {'t': (2, 1)})]
        """
        present = _with(self.present, Outputs(price, came, last=last))
        return Cycles((*self.ended, Cycle(run, present))[-REMEMBERED:]) if last else Cycles(self.ended, present)

    def to_json(self) -> dict[str, Any]:
        return {
            "ended": [{"run": c.run, "outputs": _listed(c.outputs)} for c in self.ended],
            "present": _listed(self.present),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cycles:
        """Reads them. Entries of versions that did not tell runs with output apart count as one such run."""
        ended = tuple(Cycle(c["run"], _outputs(c.get("outputs", [c]))) for c in data["ended"])
        return Cycles(ended, _outputs(data["present"] if isinstance(data["present"], list) else []))


def _with(known: tuple[Outputs[str], ...], one: Outputs[str]) -> tuple[Outputs[str], ...]:
    """The kinds of runs with one run more; where there are too many, it is counted with one of the same price."""
    for alike in (Outputs.like, Outputs.priced_like) if len(known) >= KINDS else (Outputs.like,):
        for i, some in enumerate(known):
            if alike(some, one):
                return (*known[:i], some.joined(one), *known[i + 1 :])
    return (*known, one)


def _sum(some: Mapping[Source, Rows | None], more: Mapping[Source, Rows | None]) -> Mapping[Source, Rows | None]:
    """Rows of both; None where one of them is unknown."""
    both = dict(some)
    for name, rows in more.items():
        before = both.get(name, (0, 0))
        both[name] = None if rows is None or before is None else (before[0] + rows[0], before[1] + rows[1])
    return both


def _listed(outputs: Iterable[Outputs[str]]) -> list[dict[str, Any]]:
    return [
        {
            "price": some.price,
            "rows": {name: None if known is None else list(known) for name, known in some.rows.items()},
            "runs": some.runs,
            "last": some.last,
        }
        for some in outputs
    ]


def _outputs(data: Iterable[Mapping[str, Any]]) -> tuple[Outputs[str], ...]:
    def rows(some: Mapping[str, Any]) -> dict[str, Rows | None]:
        return {name: None if known is None else (known[0], known[1]) for name, known in some["rows"].items()}

    return tuple(Outputs(s.get("price", 1.0), rows(s), s.get("runs", 1), s.get("last", True)) for s in data)


NO_CYCLES = Cycles()
