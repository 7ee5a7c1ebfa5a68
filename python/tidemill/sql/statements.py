"""The statements of Tidemill as frozen values. `codec` has their JSON form.

A name is the tuple of its parts as written, not yet qualified. The text of a query is kept as written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tidemill.search.contract.run_kinds import Policy

Name: TypeAlias = tuple[str, ...]

# Triggers and points


@dataclass(frozen=True, slots=True)
class OnDemand:
    kind: ClassVar[str] = "on_demand"


@dataclass(frozen=True, slots=True)
class OnChange:
    """Fires when one of `tables` (empty: any source) has changed, by `count` of `unit` (`ROWS`, `FILES`) if given."""

    kind: ClassVar[str] = "on_change"
    tables: tuple[Name, ...] = ()
    count: int | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class AtTime:
    """Fires every day, `second` seconds after midnight: 0 to 86400, which ends the day."""

    kind: ClassVar[str] = "at"
    second: int


@dataclass(frozen=True, slots=True)
class Every:
    """Fires at an interval. `unit` is `SECONDS`, `MINUTES`, `HOURS` or `DAYS`."""

    kind: ClassVar[str] = "every"
    count: int
    unit: str


@dataclass(frozen=True, slots=True)
class Cron:
    """Fires as five fields of Unix cron say; `zone` None is the session's time zone."""

    kind: ClassVar[str] = "cron"
    expression: str
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class AtProgress:
    """Fires when `percent` (0 < percent <= 100) of the cycle's expected rows have arrived."""

    kind: ClassVar[str] = "at_progress"
    percent: float


Trigger: TypeAlias = OnDemand | OnChange | AtTime | Every | Cron | AtProgress


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a schedule; `cost` is the price of a unit of work there."""

    kind: ClassVar[str] = "point"
    trigger: Trigger
    cost: float = 1.0
    output: bool = True


# Clauses


@dataclass(frozen=True, slots=True)
class ColumnClause:
    kind: ClassVar[str] = "column"
    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class WorkBound:
    """`which` is `FINAL` (0 < limit <= 1) or `TOTAL` (limit >= 1)."""

    kind: ClassVar[str] = "work_bound"
    which: str
    limit: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """Rows of `table` per `per` (`DAY`, `CYCLE`), of which `deletes` per cent are deletes; rows None: COMPLETE."""

    kind: ClassVar[str] = "expectation"
    table: Name
    rows: int | None = None
    per: str = "CYCLE"
    deletes: float = 0.0


@dataclass(frozen=True, slots=True)
class Iterate:
    """The iterative form of a query; `exactly` is False for MAX n TIMES."""

    kind: ClassVar[str] = "iterate"
    name: str
    columns: tuple[str, ...]
    exactly: bool
    times: int
    initial: str
    step: str
    until: str | None = None
    key: tuple[str, ...] = ()
    approximate: bool = False


# Statements


@dataclass(frozen=True, slots=True)
class Create:
    """`format`: None is the default (parquet). `query`: the text behind AS. `work`: bounds FINAL or TOTAL WORK."""

    kind: ClassVar[str] = "create"
    name: Name
    schedule: tuple[Point, ...]
    query: str | Iterate
    columns: tuple[ColumnClause, ...] = ()
    comment: str | None = None
    format: str | None = None
    partitioned_by: tuple[str, ...] = ()
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    work: WorkBound | None = None
    state_budget: str | None = None
    expect: tuple[Expectation, ...] = ()
    policy: Policy = "AUTO"
    deferred: bool = False
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Refresh:
    """`point` is as written, not yet checked against the schedule; None is the last point."""

    kind: ClassVar[str] = "refresh"
    name: Name
    point: int | None = None
    full: bool = False
    dry_run: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RefreshViews:
    """All views of `database` (None: the current one) whose names match `pattern` (None: all)."""

    kind: ClassVar[str] = "refresh_views"
    database: Name | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Verify:
    kind: ClassVar[str] = "verify"
    name: Name
    sample: float | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """Exactly one of `view`, `create` and `query` is given. `mode`: PLAN, COST, STATE, MEMO, JSON or DOT."""

    kind: ClassVar[str] = "explain"
    mode: str = "PLAN"
    view: Name | None = None
    create: Create | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class ShowViews:
    kind: ClassVar[str] = "show_views"
    database: Name | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowRefreshes:
    """The history of the view `name`; None: of all views of the current catalog."""

    kind: ClassVar[str] = "show_refreshes"
    name: Name | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowCreate:
    kind: ClassVar[str] = "show_create"
    name: Name


@dataclass(frozen=True, slots=True)
class Describe:
    kind: ClassVar[str] = "describe"
    name: Name
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Vacuum:
    kind: ClassVar[str] = "vacuum"
    name: Name
    retain_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    kind: ClassVar[str] = "drop"
    name: Name
    if_exists: bool = False


# ALTER and its actions


@dataclass(frozen=True, slots=True)
class SetSchedule:
    """`at`: when it was said (epoch microseconds), which the runtime fills in."""

    kind: ClassVar[str] = "set_schedule"
    schedule: tuple[Point, ...]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class SetWork:
    kind: ClassVar[str] = "set_work"
    work: WorkBound


@dataclass(frozen=True, slots=True)
class SetStateBudget:
    kind: ClassVar[str] = "set_state_budget"
    state_budget: str


@dataclass(frozen=True, slots=True)
class SetExpect:
    """`run`: the view's last run when EXPECT was given, which the runtime fills in."""

    kind: ClassVar[str] = "set_expect"
    expect: tuple[Expectation, ...]
    run: int | None = None


@dataclass(frozen=True, slots=True)
class SetPolicy:
    kind: ClassVar[str] = "set_policy"
    policy: Policy


@dataclass(frozen=True, slots=True)
class SetProperties:
    kind: ClassVar[str] = "set_properties"
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    kind: ClassVar[str] = "unset_properties"
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    kind: ClassVar[str] = "set_comment"
    comment: str


@dataclass(frozen=True, slots=True)
class SetQuery:
    kind: ClassVar[str] = "set_query"
    query: str | Iterate


@dataclass(frozen=True, slots=True)
class RenameTo:
    kind: ClassVar[str] = "rename_to"
    name: Name


@dataclass(frozen=True, slots=True)
class Suspend:
    """`reason`: why the scheduler said it, after a view has failed too often; None: a user did."""

    kind: ClassVar[str] = "suspend"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    kind: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True)
class Attached:
    """The changes by a CREATE that attached an existing view: the text of its query, and where names are looked up now.

    No clause of ALTER makes it. `query_columns`: as in `Definition`. `expect`: the old EXPECT, as seen from there.
    """

    kind: ClassVar[str] = "attached"
    query: str
    query_columns: tuple[str, ...]
    catalog: str
    namespace: tuple[str, ...]
    expect: tuple[Expectation, ...]


Action: TypeAlias = (
    SetSchedule
    | SetWork
    | SetStateBudget
    | SetExpect
    | SetPolicy
    | SetProperties
    | UnsetProperties
    | SetComment
    | SetQuery
    | RenameTo
    | Suspend
    | Resume
    | Attached
)


@dataclass(frozen=True, slots=True)
class Alter:
    kind: ClassVar[str] = "alter"
    name: Name
    action: Action


Statement: TypeAlias = (
    Create
    | Refresh
    | RefreshViews
    | Verify
    | Explain
    | ShowViews
    | ShowRefreshes
    | ShowCreate
    | Describe
    | Alter
    | Vacuum
    | Drop
)
