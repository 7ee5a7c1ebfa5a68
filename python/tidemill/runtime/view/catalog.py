"""The session catalog, through the bridge. A view's entry is an external table at its location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.invoker import Invoker
from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.storage.files import UndecidedError

VIEW_PROPERTY = "tidemill.view"
KEEP_FILES = "tidemill.keepFiles"
"""Property of an entry that was attached by LOCATION: DROP leaves its files alone, whatever the definition says."""
OURS = (VIEW_PROPERTY, KEEP_FILES)
SESSION_CATALOG = "spark_catalog"
_IN_MEMORY = "InMemoryCatalog"
_KINDS = {
    _IN_MEMORY: "the in-memory catalog of this process, which knows only what this process has created",
    "HiveExternalCatalog": "the catalog of the Hive metastore",
}
NAME_BYTES = 255
"""Most bytes in the name of a view: it is the name of a folder too, and of a row of a metastore."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The catalog's entry of a name. `schema`: its columns as a StructType in JSON."""

    name: tuple[str, ...]
    type: str
    location: str | None
    properties: Mapping[str, str]
    comment: str | None
    schema: Mapping[str, Any]

    @property
    def is_view(self) -> bool:
        """True if it is the entry of an incremental view."""
        return VIEW_PROPERTY in self.properties

    @property
    def what(self) -> str:
        """The kind of entry, for messages."""
        if self.is_view:
            return "an incremental view"
        return "a view" if self.type == "VIEW" else "a table"

    def has_columns(self, schema: Mapping[str, Any]) -> bool:
        """Returns True if it has these columns: names (catalogs may keep them in lower case), types and comments."""
        return _columns(self.schema) == _columns(schema)

    def describes(self, properties: Mapping[str, str], comment: str | None) -> bool:
        """Returns True if it has this comment and these properties, whatever others there are."""
        return self.comment == comment and properties.items() <= self.properties.items()


def qualify(jvm: Jvm, name: Sequence[str]) -> tuple[str, ...]:
    """Returns catalog, database and name, as Spark would resolve the name now.

    Raises TIDEMILL_CATALOG_UNSUPPORTED for a catalog other than the session's own.
    """
    return _qualified(name, jvm.invoke("catalog", {"do": "qualify", "name": list(name)}))


def find(jvm: Jvm, name: Sequence[str]) -> tuple[tuple[str, ...], CatalogEntry | None]:
    """Returns a name as `qualify` does, and its entry as `lookup` does, in one call."""
    answer = jvm.invoke("catalog", {"do": "find", "name": list(name)})
    return _qualified(name, answer), None if answer["entry"] is None else _entry(answer["entry"])


def _qualified(name: Sequence[str], answer: Mapping[str, Any]) -> tuple[str, ...]:
    qualified = tuple(answer["name"])
    if not answer["supported"]:
        foreign = qualified[0] != SESSION_CATALOG
        reason = "only spark_catalog can for now" if foreign else f"{'.'.join(name)} has too many parts"
        raise TidemillError("TIDEMILL_CATALOG_UNSUPPORTED", {"catalog": qualified[0], "reason": reason})
    return qualified


def in_memory(jvm: Invoker) -> bool:
    """Returns True if the session catalog ends with its process."""
    return _implementation(jvm) == _IN_MEMORY


def not_found(jvm: Invoker, view: str) -> TidemillError:
    """Returns TIDEMILL_NOT_FOUND for a name that the session catalog does not have, for the caller to raise."""
    kind = _KINDS.get(_implementation(jvm), f"the catalog {SESSION_CATALOG}")
    return TidemillError("TIDEMILL_NOT_FOUND", {"view": view, "catalog": kind})


def _implementation(jvm: Invoker) -> str:
    return str(jvm.invoke("catalog", {"do": "implementation"}))


def check_name(jvm: Jvm, qualified: Sequence[str]) -> None:
    """Raises TIDEMILL_NAME_TOO_LONG, and Spark's INVALID_SCHEMA_OR_RELATION_NAME for a name that no table can have."""
    if (size := len(qualified[-1].encode())) > NAME_BYTES:
        raise TidemillError("TIDEMILL_NAME_TOO_LONG", {"size": size, "most": NAME_BYTES, "begin": qualified[-1][:40]})
    jvm.invoke("catalog", {"do": "check_name", "name": list(qualified)})


def lookup(jvm: Invoker, qualified: Sequence[str]) -> CatalogEntry | None:
    """Returns the entry of a qualified name; None if there is none."""
    answer = jvm.invoke("catalog", {"do": "lookup", "name": list(qualified)})
    return None if answer is None else _entry(answer)


def views_in(jvm: Jvm, database: Sequence[str] | None, pattern: str | None) -> list[CatalogEntry]:
    """Returns the entries of views in a database (None: the current one) whose names match Spark's LIKE `pattern`.

    They are in the order of their names. Raises TIDEMILL_CATALOG_UNSUPPORTED.
    """
    request: dict[str, Any] = {"do": "list", "property": VIEW_PROPERTY}
    if database is not None:
        *qualifier, request["database"] = database
        if qualifier and qualifier != [SESSION_CATALOG]:
            raise TidemillError(
                "TIDEMILL_CATALOG_UNSUPPORTED",
                {"catalog": ".".join(qualifier), "reason": "only spark_catalog can for now"},
            )
    if pattern is not None:
        request["pattern"] = pattern
    return _listed(jvm, request)


def all_views(jvm: Jvm) -> list[CatalogEntry]:
    """Returns the entries of all views of the current catalog, by name.

    Raises TIDEMILL_CATALOG_UNSUPPORTED for a catalog that can have none.
    """
    qualify(jvm, ("any",))
    return everywhere(jvm)


def everywhere(jvm: Jvm) -> list[CatalogEntry]:
    """Returns the entries of all views of the session catalog, by name, whatever the current catalog is."""
    return _listed(jvm, {"do": "list", "property": VIEW_PROPERTY, "everywhere": True})


def _listed(jvm: Jvm, request: Mapping[str, Any]) -> list[CatalogEntry]:
    return sorted((_entry(found) for found in jvm.invoke("catalog", request)), key=lambda entry: entry.name)


def create_entry(
    jvm: Jvm,
    qualified: Sequence[str],
    location: str,
    schema: Mapping[str, Any],
    view_id: str,
    provider: str,
    properties: Mapping[str, str],
    comment: str | None,
) -> None:
    """Makes the entry of a view; `schema` is a StructType in JSON, `provider` the format of its result.

    Fails as Spark does if the name is taken. If the answer gets lost, the entry is looked up. Raises `UndecidedError`
    if that is not possible either.
    """
    request = {
        "do": "create_table",
        "name": list(qualified),
        "location": location,
        "schema": schema,
        "provider": provider,
        "properties": {**properties, VIEW_PROPERTY: view_id},
        "comment": comment,
    }
    try:
        jvm.invoke("catalog", request)
    except Exception as failure:
        try:
            found = lookup(jvm, qualified)
        except Exception as second:
            raise UndecidedError(f"whether {'.'.join(qualified)} is in the catalog: {failure}") from second
        if found is None or found.properties.get(VIEW_PROPERTY) != view_id:
            raise


def alter_entry(
    jvm: Invoker,
    qualified: Sequence[str],
    properties: Mapping[str, str],
    comment: str | None,
    schema: Mapping[str, Any] | None,
) -> None:
    """Gives the entry of a view these properties, this comment and (None: leave it) this StructType in JSON."""
    entry = lookup(jvm, qualified)
    kept = {k: v for k, v in (entry.properties if entry else {}).items() if k in OURS}
    request: dict[str, Any] = {"do": "alter_table", "name": list(qualified), "comment": comment}
    request["properties"] = {**properties, **kept}
    if schema is not None:
        request["schema"] = schema
    jvm.invoke("catalog", request)


def rename_entry(jvm: Jvm, qualified: Sequence[str], to: Sequence[str]) -> None:
    """Gives the entry another name in its database."""
    jvm.invoke("catalog", {"do": "rename_table", "name": list(qualified), "to": list(to)})


def drop_entry(jvm: Jvm, qualified: Sequence[str]) -> None:
    """Removes the entry; files stay, as they do for every external table."""
    jvm.invoke("catalog", {"do": "drop_table", "name": list(qualified)})


def refresh_entry(jvm: Invoker, qualified: Sequence[str]) -> None:
    """Makes the session read the entry's files again."""
    jvm.invoke("catalog", {"do": "refresh", "name": list(qualified)})


def default_location(jvm: Jvm, qualified: Sequence[str]) -> str:
    """Returns the location that a managed table of that name would have."""
    return str(jvm.invoke("catalog", {"do": "default_path", "name": list(qualified)}))


def _entry(answer: Mapping[str, Any]) -> CatalogEntry:
    return CatalogEntry(
        tuple(answer["name"]),
        answer["type"],
        answer.get("location"),
        answer.get("properties") or {},
        answer.get("comment"),
        answer["schema"],
    )


def _columns(schema: Mapping[str, Any]) -> list[tuple[str, Any, str | None]]:
    return [(f["name"].lower(), f["type"], f.get("metadata", {}).get("comment")) for f in schema["fields"]]
