"""Planned runs, and priced costs: what costs at several runs are compared by.

By price, a priced cost is a float: CPU milliseconds times the price of the run. Where the last run counts first, it is
an integer whose digits are the costs at each run, the last run's the highest (Tempura's c_v, section 6.2). Sums,
differences and comparisons of such integers are exact, so a saving at a run outweighs any cost at the runs before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.tvr.form import Time

Priced: TypeAlias = float
"""A priced cost: a float by price, an int (which type checkers take for a float) where the last run counts first."""
DIGIT = 128
"""Bits of the cost at one run: no sum over the tree of a plan reaches as far as the cost at the next run."""
FRACTION = 24
"""Bits of these after the point of a millisecond: costs that differ by rounding alone are equal."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run.

    Attributes:
        moment: at which it reads its sources.
        price: of a unit of its work.
        rank: the number of runs before it, where the last run counts first; None: costs are compared by price.
    """

    moment: Time
    price: float = 1.0
    rank: int | None = None

    def priced(self, ms: float) -> Priced:
        """The priced cost of CPU milliseconds at this run.

        >>> first, last = PlannedRun(1, rank=0), PlannedRun(2, rank=1)
        >>> last.priced(0.001) > first.priced(1e9), last.priced(5.0) + first.priced(1.0) > last.priced(5.0)
        (True, True)
        """
        if self.rank is None:
            return ms * self.price
        digit: int = round(ms * 2**FRACTION)
        return digit << (DIGIT * self.rank)


def as_text(cost: Priced) -> str:
    """A priced cost for people; where the last run counts first, the costs at each run, the last one's first.

    >>> as_text(2.5), as_text(PlannedRun(2, rank=1).priced(0.5) + PlannedRun(1, rank=0).priced(3.0))
    ('2.500 ms', '0.500 ms, 3.000 ms before')
    """
    if not isinstance(cost, int):
        return f"{cost:.3f} ms"
    digits = [cost % 2**DIGIT]
    while cost := cost >> DIGIT:
        digits.append(cost % 2**DIGIT)
    last, *before = (f"{digit / 2**FRACTION:.3f} ms" for digit in reversed(digits))
    return ", ".join([last, *(f"{text} before" for text in before)])
