"""Wall time by part of a statement's work, told by a monotonic clock at the borders of the parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Literal, TypeAlias, TypeVar, get_args

T = TypeVar("T")

Part: TypeAlias = Literal[
    "opening", "analysis", "sources", "planning", "catalyst", "jobs", "writing", "commit", "publishing"
]
"""`opening`: catalog entry, log and working session. `analysis`: the query, by Spark. `sources`: their positions and
listings. `planning`: the search for a plan. `catalyst`: Spark's planning of steps. `jobs`: Spark jobs of steps.
`writing`: files that the driver writes, moves, copies and removes. `commit`: the mark of the writer, and the log.
`publishing`: showing the content to other readers."""
PARTS: tuple[Part, ...] = get_args(Part)
NANOSECONDS = 1_000_000  # of a millisecond


class Walls:
    """Adds up nanoseconds by part. Parts may nest: the time of an inner one is not the outer one's too.

    For one thread at a time. Nothing is ever subtracted, so that the time of a run is the difference of two totals.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._totals: dict[Part, int] = dict.fromkeys(PARTS, 0)
        self._under_way: list[Part] = []
        self._since = 0

    def totals(self) -> dict[Part, int]:
        """Returns the nanoseconds of each part so far."""
        self._charge()
        return dict(self._totals)

    def since(self, before: Mapping[Part, int]) -> dict[str, int]:
        """Returns the whole milliseconds of each part since these totals, without parts that took less than one."""
        totals = self.totals()
        found: dict[str, int] = {part: (totals[part] - before.get(part, 0)) // NANOSECONDS for part in PARTS}
        return {part: ms for part, ms in found.items() if ms > 0}

    @contextmanager
    def part(self, name: Part) -> Iterator[None]:
        """Charges the time of the block to a part."""
        self._charge()
        self._under_way.append(name)
        try:
            yield
        finally:
            self._charge()
            self._under_way.pop()

    def borders(self, name: Part, block: AbstractContextManager[T]) -> AbstractContextManager[T]:
        """Returns the block with its beginning and its end charged to a part; what is done in it is not."""
        return _Borders(self, name, block)

    def told(self, milliseconds: Mapping[Part, float]) -> None:
        """Charges time that another clock has told. It must lie outside the parts under way here."""
        for part, ms in milliseconds.items():
            self._totals[part] += int(ms * NANOSECONDS)

    def _charge(self) -> None:
        now = self._clock()
        if self._under_way:
            self._totals[self._under_way[-1]] += now - self._since
        self._since = now


@dataclass(frozen=True, slots=True)
class _Borders(AbstractContextManager[T], Generic[T]):
    walls: Walls
    name: Part
    block: AbstractContextManager[T]

    def __enter__(self) -> T:
        with self.walls.part(self.name):
            return self.block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self.walls.part(self.name):
            return self.block.__exit__(kind, error, trace)
