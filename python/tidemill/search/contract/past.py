"""Measured costs of earlier runs of a view, beside their estimates; they correct the choice between two kinds of runs.

A run is full or incremental. Either would cost its estimate, times the ratio of measured to estimated cost over the
latest comparable runs of that kind. Filling a view is no such run: it makes states, and most of its code is new. In a
process the first run of a kind is cold, and cold runs are compared with cold ones only.

Incremental runs differ by their methods. Once some have run, the plans of other methods are compared in the same way,
and those that may be much cheaper than estimated are tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Literal, TypeAlias

LEAST = 500.0
"""Smallest CPU milliseconds of a run that counts where a kind has fewer than `SURE` runs: below, a run differs from the
next one by as much as from its estimate."""
ALIKE = 4.0
"""Largest factor between the estimates of two comparable runs."""
LATEST = 5
"""Largest number of comparable runs of a kind that count, the newest first."""
SURE = 2
"""Smallest number of comparable runs of each kind after which their costs are compared as they are."""
NEAR = 0.95
"""Largest cost of a full run that is preferred for sure, as a share of that of an incremental one."""
HALF = 0.5
"""Largest cost of a full run without states, by its estimate, as a share of incremental runs, for which the states are
given up."""
THREE_QUARTERS = 0.75
"""The same where the estimates of full runs were corrected, and incremental runs are cheaper than full ones that keep
states."""
NO_DIFFERENCE = 5.0
"""CPU milliseconds that make no difference, at whatever size."""
TRUSTED = 4
"""Smallest number of incremental runs after which full ones are tried that look much cheaper, whatever their size."""
REMEMBERED = 32
"""Number of runs of a view that are remembered. Older ones are forgotten, so that their plans can be tried again."""

TRIES = 3
"""Smallest number of warm runs by the same methods after which what they took counts as it is."""
HOPE = 2.0
"""Factor by which a run by methods that were not tried may be cheaper than is likely."""
WORTH = 0.9
"""Largest cost of such a run, if all goes well, as a share of the cheapest known one, for which it is tried."""
GAIN = 30.0
"""Smallest number of CPU milliseconds that it must gain then."""

Methods: TypeAlias = tuple[str, ...]
"""The packs that a plan counts for, in their order."""
Rivals: TypeAlias = tuple[tuple[Methods, float], ...]
"""Methods with the estimates of their incremental plans, in CPU milliseconds; the planner's choice first."""
Way: TypeAlias = Literal["FULL", "INCREMENTAL"]
"""The two kinds of runs that are compared."""
WAYS: tuple[Way, ...] = ("FULL", "INCREMENTAL")


@dataclass(frozen=True, slots=True)
class PastRun:
    """An executed run; costs in CPU milliseconds.

    `cold`: the first of its kind, and by its methods, for its view in the process. `methods`: of an incremental run;
    empty if they are not known, as in the logs of earlier versions.
    """

    kind: Way
    estimated: float
    measured: float
    cold: bool = False
    methods: Methods = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The likely costs of a full and of an incremental run, and the one to take.

    Attributes:
        way: the one to take.
        full, incremental: likely CPU milliseconds.
        measured: the kinds whose comparable runs were measured.
    """

    way: Way
    full: float
    incremental: float
    measured: frozenset[Way] = frozenset()

    def beside(self, way: str) -> float | None:
        """Likely CPU milliseconds of the alternative to a run of that kind; None if none like it was measured."""
        other, cost = ("INCREMENTAL", self.incremental) if way == "FULL" else ("FULL", self.full)
        return cost if other in self.measured else None


@dataclass(frozen=True, slots=True)
class Decision:
    """The kind of run to take, and by which methods.

    Attributes:
        found: of a full run and an incremental one by `known`.
        known: the methods that cost least as far as runs have told.
        methods: those of an incremental run: `known`, or others that are tried.
        unpaid: the view's states do not pay.
    """

    found: Comparison
    known: Methods
    methods: Methods
    unpaid: bool

    @property
    def taken(self) -> Methods | None:
        """The methods of the incremental run to take; None: a full one is to be taken."""
        return None if self.unpaid or self.found.way == "FULL" else self.methods


@dataclass(frozen=True, slots=True)
class Past:
    """The view's last runs, the newest first, without its filling."""

    runs: Sequence[PastRun] = ()

    def compare(self, full: float, incremental: float, noise: float, bare: float | None = None) -> Comparison:
        """The cheaper kind of run, given estimates of both; and of a full run that keeps no states, if there is `bare`.

        Once both kinds have run twice, what they took decides. Before that a full run must be cheaper by `noise`. If
        one kind alone has run, half of its error (in logarithms) is taken to be that of the other as well: so an error
        that both share changes little, and a run that took much longer than estimated has its alternative tried. Small
        runs are known after a few: then full ones are tried if without states they would be much cheaper.

        >>> slow = [PastRun("FULL", 200, 900), PastRun("FULL", 200, 900)]
        >>> Past().compare(200, 400, 100).way, Past(slow).compare(200, 400, 100).way
        ('FULL', 'INCREMENTAL')
        >>> both = Past([*slow, PastRun("INCREMENTAL", 400, 40), PastRun("INCREMENTAL", 400, 60)])
        >>> both.compare(200, 400, 100)  # doctest: +ELLIPSIS
        Comparison(way='INCREMENTAL', full=900.0, incremental=50.0, measured=...)
        """
        seen = self._counting({"FULL": full, "INCREMENTAL": incremental})
        ratios = {way: median(run.measured / run.estimated for run in runs) for way, runs in seen.items() if runs}
        if len(ratios) == len(WAYS) and min(map(len, seen.values())) >= SURE:
            full, incremental = full * ratios["FULL"], incremental * ratios["INCREMENTAL"]
            return Comparison(
                "FULL" if _is_cheaper(full, incremental) else "INCREMENTAL", full, incremental, frozenset(WAYS)
            )
        if bare is not None and (tried := self._trying(bare, incremental, noise)) is not None:
            return tried
        ratios = {way: r for way, r in ratios.items() if min(run.measured for run in seen[way]) >= LEAST}
        shared = sqrt(next(iter(ratios.values()))) if len(ratios) == 1 else 1.0
        full, incremental = full * ratios.get("FULL", shared), incremental * ratios.get("INCREMENTAL", shared)
        return Comparison("FULL" if full < incremental - noise else "INCREMENTAL", full, incremental, frozenset(ratios))

    def decide(self, full: float, rivals: Rivals, noise: float, bare: float | None = None) -> Decision:
        """The kind of run to take and its methods, given estimates as for `compare`; of incremental plans several.

        Other methods are tried only where an incremental run is to be taken anyway.
        """
        known = self.cheapest(rivals)
        alike, incremental = self.by(known), dict(rivals)[known]
        return Decision(
            alike.compare(full, incremental, noise, bare),
            known,
            self._worth_trying(rivals, known) or known,
            bare is not None and alike.unpaid(bare, full, incremental, noise),
        )

    def judges(self, estimated: float) -> bool:
        """True if so many incremental runs like this one were measured that other methods are compared with theirs."""
        return len(self._warm("INCREMENTAL", estimated)) >= TRUSTED

    def by(self, methods: Methods) -> Past:
        """Returns the runs without incremental ones by other methods than these."""
        return Past([run for run in self.runs if run.kind == "FULL" or run.methods in {methods, ()}])

    def cheapest(self, rivals: Rivals) -> Methods:
        """The methods whose runs took least, of those that ran often enough; the planner's choice if none did, or if
        its runs took hardly more.

        >>> deltas = [PastRun("INCREMENTAL", 100, 300, methods=("delta",))] * 3
        >>> groups = [PastRun("INCREMENTAL", 200, 220, methods=("affected",))] * 3
        >>> rivals = ((("delta",), 100.0), (("affected",), 200.0))
        >>> Past(deltas).cheapest(rivals), Past([*deltas, *groups]).cheapest(rivals)
        (('delta',), ('affected',))
        """
        took = {m: cost for m, estimated in rivals if (cost := self._took(m, estimated)) is not None}
        first, best = rivals[0][0], min(took, key=took.__getitem__, default=rivals[0][0])
        return first if first in took and not _is_cheaper(took[best], took[first]) else best

    def _worth_trying(self, rivals: Rivals, known: Methods) -> Methods | None:
        """The methods that ran too seldom to tell, and would gain most by what they may cost; None if no others do.

        At best methods that never ran cost less than is likely by `HOPE`, if half of the error of the known ones (in
        logarithms) is theirs too. Those that ran may cost less than their cheapest run did by the root of it. Where
        each run has a process of its own none is warm: then they are no longer tried after as many cold runs.
        """
        least, shared = self._took(known, dict(rivals)[known]), self.by(known)._ratio(dict(rivals)[known])
        if least is None or shared is None:
            return None
        hopes: dict[Methods, float] = {}
        for methods, estimated in rivals:
            ran = [run for run in self.runs if run.methods == methods and _alike(run, estimated)]
            warm = [run for run in ran if not run.cold]
            if methods != known and len(warm) < TRIES and len(ran) <= TRIES:
                cheapest = min((run.measured / run.estimated for run in warm), default=sqrt(shared / HOPE))
                hopes[methods] = estimated * cheapest / sqrt(HOPE)
        best = min(hopes, key=hopes.__getitem__, default=known)
        return best if best in hopes and hopes[best] < min(WORTH * least, least - GAIN) else None

    def _took(self, methods: Methods, estimated: float) -> float | None:
        """Likely CPU milliseconds by these methods; None if too few runs by them were measured."""
        alike = self.by(methods)
        ratio = alike._ratio(estimated)
        return None if ratio is None or len(alike._warm("INCREMENTAL", estimated)) < TRIES else ratio * estimated

    def _ratio(self, estimated: float) -> float | None:
        """The median ratio of measured to estimated cost of warm incremental runs with estimates like this one."""
        found = [run.measured / run.estimated for run in self._warm("INCREMENTAL", estimated)]
        return median(found) if found else None

    def _trying(self, bare: float, incremental: float, noise: float) -> Comparison | None:
        """A full run, if incremental ones have taken at least twice what one without states is likely to, and too few
        full ones have run to tell; half of the error of incremental ones is taken to be that of full ones as well."""
        took = self._warm("INCREMENTAL", incremental)
        if len(took) < TRUSTED or sum(run.kind == "FULL" and not run.cold for run in self.runs) >= SURE:
            return None
        likely = bare * max(1.0, sqrt(median(run.measured / run.estimated for run in took)))
        incremental = median(run.measured for run in took)
        if incremental <= max(likely / HALF, likely + noise):
            return None
        return Comparison("FULL", likely, incremental, frozenset({"INCREMENTAL"}))

    def unpaid(self, bare: float, full: float, incremental: float, noise: float) -> bool:
        """True if the view's states do not pay at its present size, given estimates of a full run without states, of
        one with them, and of an incremental run.

        If full runs are cheaper than incremental ones even while they keep states, nobody reads these. Else a full run
        without states must be much cheaper, and by more than `noise`. Full runs correct its estimate; before two were
        measured, small incremental runs do not count.

        >>> slow = Past([PastRun("INCREMENTAL", 700, 720)] * 3)
        >>> [slow.unpaid(bare, 900, 700, 100) for bare in (300, 500)], Past(slow.runs[:2]).unpaid(300, 900, 700, 100)
        ([True, False], False)
        >>> small, full = [PastRun("INCREMENTAL", 200, 210)] * 3, [PastRun("FULL", 250, 250)] * 2
        >>> Past(small).unpaid(50, 250, 200, 100), Past([*small, *full]).unpaid(50, 250, 200, 100)
        (False, True)
        >>> Past([*small, *[PastRun("FULL", 250, 190)] * 2]).unpaid(249, 250, 200, 100)
        True
        """
        took = [run.measured for run in self._warm("INCREMENTAL", incremental)]
        whole = self._warm("FULL", full)
        if not took or (len(whole) < SURE and (len(took) <= SURE or median(took) < LEAST)):
            return False
        if min(len(took), len(whole)) < SURE:
            return median(took) > max(bare / HALF, bare + noise)
        if _is_cheaper(median(run.measured for run in whole), median(took)):
            return True
        likely = bare * median(run.measured / run.estimated for run in whole)
        return median(took) > max(likely / THREE_QUARTERS, likely + noise / 2)

    def _warm(self, way: Way, estimated: float) -> list[PastRun]:
        """The latest runs of a kind with estimates like this one, without cold ones."""
        return [run for run in self.runs if run.kind == way and _alike(run, estimated) and not run.cold][:LATEST]

    def _counting(self, estimates: dict[Way, float]) -> dict[Way, list[PastRun]]:
        """Of each kind the latest runs with estimates like this one: warm ones, or cold ones if both kinds have these
        and not both have warm ones."""
        alike = {way: [run for run in self.runs if run.kind == way and _alike(run, e)] for way, e in estimates.items()}
        warm = {way: [run for run in runs if not run.cold] for way, runs in alike.items()}
        cold = {way: [run for run in runs if run.cold] for way, runs in alike.items()}
        counted = cold if all(cold.values()) and not all(warm.values()) else warm
        return {way: runs[:LATEST] for way, runs in counted.items()}

    def of(self, kinds: Collection[Way]) -> list[PastRun]:
        """Returns the runs of these kinds."""
        return [run for run in self.runs if run.kind in kinds]

    def then(self, run: PastRun) -> Past:
        """Returns what is remembered after one more run."""
        return Past((run, *self.runs)[:REMEMBERED])


def _is_cheaper(full: float, incremental: float) -> bool:
    return full < min(NEAR * incremental, incremental - NO_DIFFERENCE)


def _alike(run: PastRun, estimated: float) -> bool:
    return 0 < run.estimated <= ALIKE * estimated and estimated <= ALIKE * run.estimated


NOTHING_PAST = Past()
