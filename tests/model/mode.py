"""Ways in which plans of a maintained view are made and disturbed."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from cost_model.default import DefaultCostModel
from tidemill.cost.costing import CpuMs, Facts, Read, RowCount
from tidemill.plan.ops import Op
from tidemill.search.contract.run_kinds import Policy


@dataclass(frozen=True)
class Shaken(DefaultCostModel):
    """The default model with each cost multiplied at random, the same for the same operator."""

    seed: int = 0

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        noise = random.Random(zlib.crc32(f"{self.seed} {op}".encode())).uniform(-6, 6)
        return CpuMs((float(DefaultCostModel.cost(self, op, reads, output, facts)) + 1) * 2.718**noise)


@dataclass(frozen=True)
class Mode:
    """How plans are made: the pack preferred, rules switched off, costs shaken, states kept, what sources can do."""

    prefer: str | None = None
    off: frozenset[str] = frozenset()
    shake: int | None = None
    keep: float | None = None
    """Share of the possible states that is kept; None: those that the planner chooses."""
    policy: Policy = "AUTO"
    readable: bool = True
    telling: frozenset[int] | None = None
    """Sources that can tell their changes; None: all."""
    lose: float = 0.0
    """How often a state, or the content, is gone when a run begins."""
    anew: float = 0.0
    """How often a run chooses its states anew, as after one that might not use every pack."""
    wavers: float = 0.0
    """How often what is said of arrivals, and how much states may take, is something else than at the run before."""
    fewer: float = 0.0
    """How often a run may use only some of the packs."""
    timed: bool = False
    """What the runs so far took is known: something at random."""
    early: float | None = None
    """How much of what could be done by a run without output is; None: what the planner chooses."""
    model: str = "default"
    known: bool = False
    """The planner knows all numbers of rows, those of points to come too."""
    ordered: bool = False
    """Every base is in an order, so that keys can be looked up in it."""
    tells: float = 0.0
    """How often views above wait for the change when the content is made anew."""
    compact: float = 0.0
    """How often pieces of a state that a run reads are put together, from any of them on."""
