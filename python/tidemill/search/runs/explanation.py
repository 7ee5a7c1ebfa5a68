"""The record of how a plan was found: kept as it is, and formatted only on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tidemill.cost.costing import CpuMs, RowCount
from tidemill.memo.memo import Expression
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Stopped
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned import Planned
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.keep.compaction import Compaction
from tidemill.search.space.space import Space


@dataclass(frozen=True, slots=True)
class Used:
    """An expression that the plan uses, with its estimates when it was chosen; `own`: cost without its inputs."""

    group: int
    expression: Expression
    rows: RowCount
    own: CpuMs


@dataclass(frozen=True, slots=True)
class Job:
    """Work of a run beside its operators: it writes the rows of a step, or applies the view's change to its content.

    Attributes:
        name: what it does.
        rows: those that it handles.
        cost: CPU milliseconds.
        group: whose rows it writes; None if it applies what earlier jobs wrote.
    """

    name: str
    rows: float
    cost: CpuMs
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """The best plan of one pack, with its needs of others; `costs`: CPU milliseconds at each point, not priced."""

    pack: str
    methods: tuple[str, ...]
    costs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A planned point of the schedule: its number, the price of a unit of its work, whether it has output, and, if it
    is upcoming, the expected changes of the sources until then."""

    number: int
    price: float
    output: bool
    expected: Mapping[int, SourceChange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchStats:
    """The duration of a search in wall seconds, and the reason why it ended."""

    seconds: float
    stopped: Stopped


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way in which a plan was found.

    Attributes:
        space: the searched space.
        extractor: its choices, after all steps.
        model: name of the cost model.
        used: the expressions carried out, in the order of the steps.
        jobs: the work beside them, in order.
        saves: by group the state that keeps its rows.
        compacted: compactions, by state.
        orders: the field that a state's base is ordered by, by state.
        rivals: plans the alternatives; called only on request, as each takes as long as the plan itself.
        points: the points planned together, the run's own first.
        schedule: the plan for all of them, if there are several.
        costs: at each of them, in the model's unit.
        search: duration and end of the search.
    """

    space: Space
    extractor: Extractor
    model: str
    used: Sequence[Used]
    jobs: Sequence[Job]
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
    """A plan with the record of how it was found."""

    explanation: Explanation

    @property
    def bare(self) -> RunPlan:
        """The plan alone, without the memo, as execution needs it."""
        return RunPlan(**{f.name: getattr(self, f.name) for f in fields(RunPlan)})
