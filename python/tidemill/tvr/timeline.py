"""The moments that are planned together, and the transitions of the sources between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tidemill.tvr.form import Span, Time

Sources = frozenset[int]
NONE: Sources = frozenset()


@dataclass(frozen=True, slots=True)
class Transition:
    """The change of the sources from one moment to the next.

    Attributes:
        changed: the sources that change.
        telling: the changed sources whose change is known.
        mixed: the changed sources whose change may hold both insertions and deletions, which may cancel out.
        growing: the changed sources that no row leaves.
    """

    changed: Sources
    telling: Sources
    mixed: Sources = NONE
    growing: Sources = NONE


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments 0 to n with n transitions; transition i leads from moment i to the next.

    >>> first, second = Transition(frozenset({1}), frozenset({1})), Transition(frozenset({1, 2}), frozenset({1}))
    >>> line = Timeline((first, second))
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
        """The interval from the first moment to the last."""
        return Span(0, len(self.steps))

    def changed(self, span: Span) -> Sources:
        """The sources that change within an interval."""
        return NONE.union(*(s.changed for s in self._within(span)))

    def telling(self, span: Span) -> Sources:
        """The sources whose changes are all known within an interval."""
        mute = NONE.union(*(s.changed - s.telling for s in self._within(span)))
        return self.changed(span) - mute

    def mixed(self, span: Span) -> Sources:
        """The sources whose changes may cancel out within an interval: within one transition, or between several."""
        found, seen = set[int](), set[int]()
        for step in self._within(span):
            found |= step.mixed | (seen & step.changed)
            seen |= step.changed
        return frozenset(found)

    def growing(self, span: Span) -> Sources:
        """The sources that change within an interval, and that no row leaves in it."""
        leaving = NONE.union(*(s.changed - s.growing for s in self._within(span)))
        return self.changed(span) - leaving

    def unchanged_until(self, sources: Sources, time: Time) -> Time:
        """The last moment up to which nothing below `sources` changes from `time` on."""
        while time < len(self.steps) and not sources & self.steps[time].changed:
            time += 1
        return time

    def spans(self, sources: Sources) -> Iterator[Span]:
        """The distinct intervals of a relation over these sources; the whole timeline if the sources never change."""
        times = sorted({self.unchanged_until(sources, t) for t in self.moments})
        yield from (Span(old, new) for old, new in combinations(times, 2))
        if len(times) == 1:
            yield self.whole

    def _within(self, span: Span) -> tuple[Transition, ...]:
        return self.steps[span.old : span.new]
