"""The definition of a view: what CREATE fixed for its life, kept as `<location>/_tidemill/view.json`.

The truth about a view lies under its location; the catalog entry only points there (design 9a.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidemill.runtime.wire import Type
from tidemill.sql.statements import Create, from_json

FORMAT = 1
VIEW_FILE = "_tidemill/view.json"


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column as fixed at CREATE (`*` expanded); `type` is Spark's JSON type, parsed."""

    name: str
    type: Type
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything that a refresh needs to know about a view besides its log.

    `name`: catalog, namespace and name. `statement`: the CREATE statement as parsed. `query`: its query text.
    `settings`: the captured confs that give the query its meaning, read with `catalog` and `namespace` as current.
    `query_columns`: names of the query's own output, in the order of `columns`. `sources`: the source entries of the
    query document as CREATE saw them. `functions`: fingerprints of session functions by name. `order_dropped`: a
    top-level ORDER BY that a stored bag cannot keep. `time_dependent`: the query reads the current time.
    `owns_files`: created without LOCATION, so that DROP removes the files.
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
    order_dropped: bool
    time_dependent: bool
    owns_files: bool
    created_at: int
    location: str

    @property
    def qualified(self) -> str:
        """The name as SHOW REFRESHES prints it."""
        return ".".join(self.name)

    @property
    def create(self) -> Create:
        """The CREATE statement."""
        statement = from_json(self.statement)
        assert isinstance(statement, Create)
        return statement

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=1)

    @staticmethod
    def from_json(text: str, location: str) -> Definition:
        """Reads `text`; `location` is where it was found (a moved directory keeps working).

        Raises ValueError for a format that this version does not know.
        """
        data = dict(json.loads(text))
        written = data.pop("format", None)
        if written != FORMAT:
            raise ValueError(f"view.json of format {written}; this version of Tidemill reads format {FORMAT}")
        definition = Definition(**data)
        return replace(
            definition,
            name=tuple(definition.name),
            namespace=tuple(definition.namespace),
            columns=tuple(ViewColumn(**c) for c in data["columns"]),
            query_columns=tuple(definition.query_columns),
            sources=tuple(definition.sources),
            location=location,
        )
