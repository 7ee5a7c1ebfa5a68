"""The definition of a view, as CREATE, OR REPLACE or ALTER ... AS made it, and its amendments by ALTER.

The files at its location are the truth about a view; the catalog entry only points there. Definitions are numbered from
0. Each is a file of its own that never changes: `_tidemill/view.json`, then `_tidemill/definition/<number>.json`. The
newest entry of the log names the definition in force, so that a query and its content change in one commit.

Amendments are the actions of ALTER (schedule, policy, comment, properties, suspended; the namespace of the query of an
attached view), one file each: `_tidemill/amendments/<number>.json`. They apply in the order of their numbers to the
definition in force, except those that it had taken in when it was made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tidemill.plan.datatype import DataType
from tidemill.runtime.storage.files import child, numbered
from tidemill.runtime.storage.small import UnknownFormatError, decoded
from tidemill.runtime.view.arrivals import ArrivedRows, expectations, per_cycle, places
from tidemill.search.contract.cycles import Cycle
from tidemill.search.contract.run_kinds import Policy
from tidemill.sql.clauses import byte_string
from tidemill.sql.codec import from_json
from tidemill.sql.statements import (
    Action,
    Attached,
    Create,
    Expectation,
    Resume,
    SetComment,
    SetExpect,
    SetPolicy,
    SetProperties,
    SetSchedule,
    SetStateBudget,
    Suspend,
    UnsetProperties,
)

FORMAT = 1
VIEW_FILE = "_tidemill/view.json"
DEFINITIONS = "_tidemill/definition"
AMENDMENTS = "_tidemill/amendments"
DELETION_VECTORS = "delta.enableDeletionVectors"
"""Delta's property that lets transactions mark rows of a file."""
DROPPING = "_tidemill/dropping"
"""A mark that DROP makes before the catalog entry goes, with the number of the next run. If no run came since, the
files can go."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column as fixed at CREATE (`*` expanded); `type` is Spark's JSON type, parsed."""

    name: str
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a view's statement that every run needs.

    `captured`: the settings that give the query its meaning. `cycle`: the arrivals at a source in a cycle, by its name,
    where EXPECT tells. `marks_rows`: runs may mark rows of a result file in deletion vectors. `budget`: bytes that kept
    states may take; None: no limit. `complete`: sources of which nothing more comes, as was said after run `said`.
    """

    policy: Policy
    captured: Mapping[str, str]
    cycle: Mapping[str, ArrivedRows] = field(default_factory=dict)
    marks_rows: bool = False
    budget: int | None = None
    complete: frozenset[str] = frozenset()
    said: int = -1

    @staticmethod
    def of(
        create: Create,
        captured: Mapping[str, str],
        expected: Mapping[str, Expectation],
        *,
        marks_rows: bool = False,
        said: int = -1,
    ) -> Terms:
        """Returns the terms of a statement. `expected`: EXPECT by the names of the sources, said after run `said`."""
        budget = None if create.state_budget is None else byte_string(create.state_budget)
        complete = frozenset(name for name, told in expected.items() if told.rows is None)
        return Terms(create.policy, captured, per_cycle(expected), marks_rows, budget, complete, said)

    def expected(self, ended: Sequence[Cycle[str]]) -> dict[str, ArrivedRows]:
        """Returns the arrivals at a source in a cycle as EXPECT tells them. COMPLETE means none, unless rows came in a
        cycle that has ended since.

        >>> from tidemill.search.contract.cycles import Outputs
        >>> terms = Terms("AUTO", {}, {"t": (5.0, 0.0)}, complete=frozenset({"u"}))
        >>> terms.expected([]), terms.expected([Cycle(1, (Outputs(1.0, {"u": (1, 0)}),))])
        ({'t': (5.0, 0.0), 'u': (0.0, 0.0)}, {'t': (5.0, 0.0)})
        """
        came = [c.rows for c in ended if c.run > self.said]
        over = {name for rows in came for name, known in rows.items() if known is not None and sum(known) > 0}
        return {**self.cycle, **dict.fromkeys(sorted(self.complete - over), (0.0, 0.0))}


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything that a refresh needs of a view besides its log.

    `name`: catalog, namespace and name. `statement`: the CREATE statement as parsed. `query`: its query text.
    `settings`: the captured confs that give the query its meaning, read with `catalog` and `namespace` as current.
    `query_columns`: names of the query's own output, in the order of `columns`. `sources`: the source entries of the
    query document as CREATE saw them. `functions`: fingerprints of session functions by name. `time_dependent`: the
    query reads the current time. `owns_files`: created without LOCATION, so that DROP removes the files. `number`: of
    the definition. `takes_in`: how many amendments it had taken in. `deletion_vectors`: it was made by a version that
    uses them by default. `point_times`: when points came into the schedule that are newer than the view (epoch
    microseconds), by their place (see `arrivals.place`). `amendments`: those that came after, in order; not part of the
    file.
    """

    id: str
    name: tuple[str, ...]
    statement: Mapping[str, Any]
    text: str
    query: str
    settings: Mapping[str, str]
    catalog: str
    namespace: tuple[str, ...]
    columns: tuple[ViewColumn, ...]
    query_columns: tuple[str, ...]
    sources: tuple[Mapping[str, Any], ...]
    functions: Mapping[str, str]
    time_dependent: bool
    owns_files: bool
    created_at: int
    location: str
    number: int = 0
    takes_in: int = 0
    deletion_vectors: bool = False
    point_times: Mapping[str, int] = field(default_factory=dict)
    amendments: tuple[Action, ...] = ()

    @property
    def marks_rows(self) -> bool:
        """True if runs may mark rows of a result file in deletion vectors. The property of that name counts first."""
        said = dict(self.create.properties).get(DELETION_VECTORS)
        return self.format == "delta" and (self.deletion_vectors if said is None else said.lower() == "true")

    @property
    def qualified(self) -> str:
        """The name as SHOW REFRESHES prints it."""
        return ".".join(self.name)

    @property
    def format(self) -> str:
        """The format of the result."""
        return self.create.format or "parquet"

    @property
    def schema(self) -> dict[str, Any]:
        """The columns as a StructType in JSON."""
        return {"type": "struct", "fields": [_field(c) for c in self.columns]}

    @property
    def expected(self) -> dict[str, Expectation]:
        """EXPECT by the names of the sources."""
        return expectations(self.create.expect, self.namespace, (str(s["name"]) for s in self.sources))

    @property
    def terms(self) -> Terms:
        said = self.expect_said
        dated = -1 if said is None else said
        return Terms.of(self.create, self.settings, self.expected, marks_rows=self.marks_rows, said=dated)

    @property
    def create(self) -> Create:
        """The CREATE statement, with what ALTER has amended."""
        statement = from_json(self.statement)
        assert isinstance(statement, Create)
        for action in self.amendments:
            statement = amended(statement, action)
        return statement

    @property
    def suspended(self) -> bool:
        """True if the last of SUSPEND and RESUME was SUSPEND."""
        return isinstance(self._switched, Suspend)

    @property
    def suspended_because(self) -> str | None:
        """The reason for which the scheduler has suspended the view; None if it has not."""
        return self._switched.reason if isinstance(self._switched, Suspend) else None

    @property
    def _switched(self) -> Suspend | Resume | None:
        return next((a for a in reversed(self.amendments) if isinstance(a, Suspend | Resume)), None)

    @property
    def points_since(self) -> dict[str, int]:
        """When each point of the schedule came into it (epoch microseconds), by its place (see `arrivals.place`)."""
        statement = from_json(self.statement)
        assert isinstance(statement, Create)
        known = {name: self.point_times.get(name, self.created_at) for name in places(statement.schedule)}
        for action in self.amendments:
            if isinstance(action, SetSchedule):
                said = self.created_at if action.at is None else action.at
                known = {name: known.get(name, said) for name in places(action.schedule)}
        return known

    @property
    def expect_said(self) -> int | None:
        """The last run when EXPECT was said by ALTER (-1: there was none); None if CREATE said it."""
        said = [a for a in self.amendments if isinstance(a, SetExpect)]
        return None if not said else -1 if said[-1].run is None else said[-1].run

    def amended_by(self, actions: Sequence[Action]) -> Definition:
        """Returns the definition with all amendments that apply to it."""
        now = replace(self, amendments=tuple(actions))
        for action in actions:
            if isinstance(action, Attached):
                now = replace(
                    now,
                    query=action.query,
                    query_columns=action.query_columns,
                    catalog=action.catalog,
                    namespace=action.namespace,
                )
        return now

    @property
    def file(self) -> str:
        """The definition's file, below the location."""
        return VIEW_FILE if self.number == 0 else definition_file(self.number)

    def to_json(self) -> str:
        data = asdict(self)
        del data["amendments"]
        return json.dumps({"format": FORMAT, **data}, ensure_ascii=False, indent=1)

    @staticmethod
    def from_json(text: str | None, location: str, file: str = VIEW_FILE) -> Definition:
        """Returns the definition in the text of a file below `location` (a moved directory keeps working).

        Raises DamagedError, also for a format that this version does not know.
        """
        return decoded(child(location, file), text, lambda data: Definition._of(data, location))

    @staticmethod
    def _of(found: Mapping[str, Any], location: str) -> Definition:
        data = dict(found)
        written = data.pop("format", None)
        if written != FORMAT:
            raise UnknownFormatError(f"it is of format {written}; this version of Tidemill reads format {FORMAT}")
        known = {f.name for f in fields(Definition)}  # earlier versions wrote more
        definition = Definition(**{key: value for key, value in data.items() if key in known})
        from_json(definition.statement)  # a statement that cannot be read is damage, too
        return replace(
            definition,
            name=tuple(definition.name),
            namespace=tuple(definition.namespace),
            columns=tuple(ViewColumn(**c) for c in data["columns"]),
            query_columns=tuple(definition.query_columns),
            sources=tuple(definition.sources),
            location=location,
        )


def _field(column: ViewColumn) -> dict[str, Any]:
    metadata = {"comment": column.comment} if column.comment is not None else {}
    # A refresh may bring the first NULL: a stored column is always nullable.
    return {"name": column.name, "type": column.type, "nullable": True, "metadata": metadata}


def definition_file(number: int) -> str:
    """Returns the file of a definition that is not the first."""
    return numbered(DEFINITIONS, number)


def amended(create: Create, action: Action) -> Create:
    """Returns a CREATE statement as an action of ALTER changes it. Other actions leave it as it is.

    >>> amended(Create(("v",), (), "SELECT 1", properties=(("a", "1"),)), SetProperties((("b", "2"),))).properties
    (('a', '1'), ('b', '2'))
    """
    match action:
        case SetSchedule(schedule, _):
            return replace(create, schedule=schedule)
        case SetExpect(expect):
            return replace(create, expect=expect)
        case Attached(query, _, _, _, expect):
            return replace(create, query=query, expect=expect)
        case SetPolicy(policy):
            return replace(create, policy=policy)
        case SetStateBudget(size):
            return replace(create, state_budget=size)
        case SetComment(comment):
            return replace(create, comment=comment)
        case SetProperties(properties):
            return replace(create, properties=tuple({**dict(create.properties), **dict(properties)}.items()))
        case UnsetProperties(keys):
            return replace(create, properties=tuple((k, v) for k, v in create.properties if k not in keys))
        case _:
            return create
