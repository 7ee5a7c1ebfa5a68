"""What a planned run can tell of how it was found: kept as it is, written out only when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tidemill.cost.costing import CpuMs, RowCount
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Stopped
from tidemill.search.choose.extract import Extractor, Planned
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.keep.compaction import Compaction
from tidemill.search.space.space import Space


@dataclass(frozen=True, slots=True)
class Used:
    """An expression that the plan carries out, with its estimates when it was chosen; `own`: without its inputs."""

    group: int
    expression: Expression
    rows: RowCount
    own: CpuMs


@dataclass(frozen=True, slots=True)
class Alternative:
    """The best plan of one pack, with what it needs of others; `costs`: CPU milliseconds at each point, not priced."""

    pack: str
    methods: tuple[str, ...]
    costs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A point of the schedule as it was planned: its number, the price of a unit of its work, whether it has output;
    of one to come, what is expected to happen to the sources until then."""

    number: int
    price: float
    output: bool
    expected: Mapping[int, SourceChange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchStats:
    """How long a plan was looked for, in wall seconds, and why no longer."""

    seconds: float
    stopped: Stopped


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a plan was found.

    Attributes:
        space: the space that was searched.
        extractor: what was chosen in it, after all steps.
        model: name of the cost model.
        used: what is carried out, in the order of the steps.
        saves: the state that keeps a group's rows.
        compacted: what is put together, by state.
        orders: the field that a state's base is in the order of, by state.
        rivals: plans the alternatives; not before they are asked for, as each takes as long as the plan itself.
        points: those planned together, the run's own first.
        schedule: what is done at all of them, if there are several.
        costs: at each of them, in the model's unit.
        search: until the plan was there.
    """

    space: Space
    extractor: Extractor
    model: str
    used: Sequence[Used]
    saves: Mapping[int, str]
    compacted: Mapping[str, Compaction]
    orders: Mapping[str, str]
    rivals: Callable[[], Sequence[Alternative]]
    points: Sequence[PlannedPoint]
    schedule: Sequence[Planned]
    costs: Sequence[float]
    search: SearchStats


@dataclass(frozen=True, kw_only=True)
class ExplainedPlan(RunPlan):
    """A plan with all that was looked at to find it."""

    explanation: Explanation

    @property
    def bare(self) -> RunPlan:
        """What is needed to carry it out, without the memo."""
        return RunPlan(**{f.name: getattr(self, f.name) for f in fields(RunPlan)})
