"""The session catalog, through the bridge: a view's entry is an external Parquet table that points to its location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError

VIEW_PROPERTY = "tidemill.view"
SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalog says of a name."""

    name: tuple[str, ...]
    type: str
    provider: str | None
    location: str | None
    properties: Mapping[str, str]
    comment: str | None

    @property
    def is_view(self) -> bool:
        """Whether it is the entry of an incremental view."""
        return VIEW_PROPERTY in self.properties

    @property
    def what(self) -> str:
        """What it is, for messages."""
        if self.is_view:
            return "an incremental view"
        return "a view" if self.type == "VIEW" else "a table"


def qualify(jvm: Jvm, name: Sequence[str]) -> tuple[str, ...]:
    """Catalog, database and name, as Spark would resolve it now.

    Raises TIDEMILL_CATALOG_UNSUPPORTED for a catalog other than the session's own.
    """
    answer = jvm.invoke("catalog", {"do": "qualify", "name": list(name)})
    qualified = tuple(answer["name"])
    if not answer["supported"]:
        foreign = qualified[0] != SESSION_CATALOG
        reason = "only spark_catalog can for now" if foreign else f"{'.'.join(name)} has too many parts"
        raise TidemillError("TIDEMILL_CATALOG_UNSUPPORTED", {"catalog": qualified[0], "reason": reason})
    return qualified


def lookup(jvm: Jvm, qualified: Sequence[str]) -> Entry | None:
    """The entry of a qualified name; None if there is none."""
    answer = jvm.invoke("catalog", {"do": "lookup", "name": list(qualified)})
    return None if answer is None else _entry(answer)


def views_in(jvm: Jvm, database: str | None, pattern: str | None) -> list[Entry]:
    """Entries of incremental views in a database (None: the current one) whose names match Spark's LIKE `pattern`."""
    request: dict[str, Any] = {"do": "list", "property": VIEW_PROPERTY}
    if database is not None:
        request["database"] = database
    if pattern is not None:
        request["pattern"] = pattern
    return [_entry(found) for found in jvm.invoke("catalog", request)]


def create_entry(
    jvm: Jvm,
    qualified: Sequence[str],
    location: str,
    schema: Mapping[str, Any],
    view_id: str,
    properties: Mapping[str, str],
    comment: str | None,
) -> None:
    """Makes the entry of a view; `schema` is a StructType in JSON.  Fails as Spark does if the name is taken."""
    jvm.invoke(
        "catalog",
        {
            "do": "create_table",
            "name": list(qualified),
            "location": location,
            "schema": schema,
            "provider": "parquet",
            "properties": {**properties, VIEW_PROPERTY: view_id},
            "comment": comment,
        },
    )


def drop_entry(jvm: Jvm, qualified: Sequence[str]) -> None:
    """Removes the entry; files stay, as they do for every external table."""
    jvm.invoke("catalog", {"do": "drop_table", "name": list(qualified)})


def refresh_entry(jvm: Jvm, qualified: Sequence[str]) -> None:
    """Has the session read the entry's files anew."""
    jvm.invoke("catalog", {"do": "refresh", "name": list(qualified)})


def default_location(jvm: Jvm, qualified: Sequence[str]) -> str:
    """Where a managed table of that name would lie."""
    return str(jvm.invoke("catalog", {"do": "default_path", "name": list(qualified)}))


def _entry(answer: Mapping[str, Any]) -> Entry:
    return Entry(
        tuple(answer["name"]),
        answer["type"],
        answer.get("provider"),
        answer.get("location"),
        answer.get("properties") or {},
        answer.get("comment"),
    )
