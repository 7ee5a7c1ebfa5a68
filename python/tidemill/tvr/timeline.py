"""The moments that are planned together, and what happens to the sources between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tidemill.tvr.form import Span, Time

Sources = frozenset[int]
NONE: Sources = frozenset()


@dataclass(frozen=True, slots=True)
class Transition:
    """From one moment to the next.

    Attributes:
        changed: the sources that change.
        telling: those of them that can tell their changes.
        mixed: those of them whose change may hold insertions and deletions, which may cancel each other.
    """

    changed: Sources
    telling: Sources
    mixed: Sources = NONE


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments 0 to n with n steps; step i leads from moment i to the next.

    >>> line = Timeline((Step(frozenset({1}), frozenset({1})), Step(frozenset({1, 2}), frozenset({1}))))
    >>> line.whole, [line.unchanged_until(frozenset({2}), t) for t in line.moments], line.telling(line.whole)
    (Span(old=0, new=2), [1, 1, 2], frozenset({1}))
    """

    steps: tuple[Transition, ...]

    @property
    def moments(self) -> range:
        """All moments in order."""
        return range(len(self.steps) + 1)

    @property
    def whole(self) -> Span:
        """From the first moment to the last."""
        return Span(0, len(self.steps))

    def changed(self, span: Span) -> Sources:
        """The sources that change within an interval."""
        return NONE.union(*(s.changed for s in self._within(span)))

    def telling(self, span: Span) -> Sources:
        """Those of them that can tell all their changes within it."""
        mute = NONE.union(*(s.changed - s.telling for s in self._within(span)))
        return self.changed(span) - mute

    def mixed(self, span: Span) -> Sources:
        """Those of them whose changes may cancel each other: by being mixed, or by following on each other."""
        found, seen = set[int](), set[int]()
        for step in self._within(span):
            found |= step.mixed | (seen & step.changed)
            seen |= step.changed
        return frozenset(found)

    def unchanged_until(self, sources: Sources, time: Time) -> Time:
        """The last moment at which what is made of these sources is still what it was at a moment."""
        while time < len(self.steps) and not sources & self.steps[time].changed:
            time += 1
        return time

    def spans(self, sources: Sources) -> Iterator[Span]:
        """The intervals that differ for what is made of these sources; the whole, if nothing ever changes it."""
        times = sorted({self.unchanged_until(sources, t) for t in self.moments})
        yield from (Span(old, new) for old, new in combinations(times, 2))
        if len(times) == 1:
            yield self.whole

    def _within(self, span: Span) -> tuple[Transition, ...]:
        return self.steps[span.old : span.new]
