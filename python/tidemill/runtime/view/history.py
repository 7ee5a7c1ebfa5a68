"""The row of REFRESH and of SHOW REFRESHES: its columns in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tidemill.plan.kinds import one_of
from tidemill.search.contract.run_kinds import RUN_KINDS, RunKind


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The numbers of inserted and of deleted rows."""

    inserts: int
    deletes: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. The fields are the columns of SHOW REFRESHES in their order; None is NULL.

    `started_at`: epoch microseconds. `cpu_ms`, `duration_ms`: milliseconds. Costs: in the unit of the cost model, for
    `default` CPU milliseconds. `positions`: a source's position as text, by its name.
    """

    run: int | None
    view: str
    point: int | None
    trigger: str
    kind: RunKind
    reason: str | None = None
    methods: tuple[str, ...] = ()
    rows_in: ChangeCounts | None = None
    rows_out: ChangeCounts | None = None
    started_at: int = 0
    duration_ms: int | None = None
    cpu_ms: int | None = None
    jobs: int | None = None
    estimated_cost: float | None = None
    measured_cost: float | None = None
    state_bytes: int | None = None
    positions: Mapping[str, str] = field(default_factory=dict)
    regret: float | None = None
    rows_read: int | None = None

    def cells(self) -> list[Any]:
        """Returns the row in the encoding of the bridge: structs are lists, maps are objects."""
        return [_cell(getattr(self, f.name)) for f in fields(self)]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["methods"] = list(self.methods)
        data["positions"] = dict(self.positions)
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RunRow:
        known = {f.name for f in fields(RunRow)}
        values = {k: v for k, v in data.items() if k in known}
        for name in ("rows_in", "rows_out"):
            if values.get(name) is not None:
                values[name] = ChangeCounts(**values[name])
        values["kind"] = one_of(RUN_KINDS, values["kind"], "a run's kind")
        values["methods"] = tuple(values.get("methods") or ())
        return RunRow(**values)


def _cell(value: object) -> object:
    match value:
        case ChangeCounts():
            return [value.inserts, value.deletes]
        case tuple():
            return list(value)
        case _:
            return dict(value) if isinstance(value, Mapping) else value
