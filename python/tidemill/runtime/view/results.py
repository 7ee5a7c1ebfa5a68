"""The format of a view's result: shows the live files to readers that do not read the log.

In both formats the files are the same Parquet files, and publishing comes after the commit and can always be done
again. `parquet`: Spark's own file-sink manifest. `delta`: a Delta table at the location, whose transactions add and
remove those files, or mark rows of them as gone, and have the number of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.errors import TidemillError
from tidemill.runtime.storage import publish
from tidemill.runtime.storage.files import Files
from tidemill.runtime.view.definition import DELETION_VECTORS, Definition
from tidemill.runtime.view.record import File, RunRecord

DELTA_LOG = "_delta_log"
FOLDERS = (publish.FOLDER, DELTA_LOG)
"""Folders below a location with the manifests or the Delta log of the result."""
DELTA_PROPERTIES = (
    "delta.checkpointInterval",
    "delta.deletedFileRetentionDuration",
    DELETION_VECTORS,
    "delta.logRetentionDuration",
)
"""Delta's own table properties that a view may have. All others concern the writing of its files."""


class Result(Protocol):
    """Shows the content of a view."""

    def check(self) -> None:
        """Raises an error if a view of this definition cannot have this format. Writes nothing."""

    def prepare(self) -> None:
        """Makes the files that a view needs before its initial load."""

    def published(self, head: RunRecord) -> int | None:
        """Returns the number of the published content, to compare with `due`; None if there is none of this view.

        `head`: the last record, whose content is shown again if it is found damaged.
        """

    def due(self, record: RunRecord) -> int | None:
        """Returns the number under which a record with content is published."""

    def publish(self, record: RunRecord, before: RunRecord | None) -> None:
        """Publishes the content of `record`, unless it, or newer content, is published already.

        `before`: the record that is published now, as far as it is known.
        """

    def forget(self) -> None:
        """Clears caches of the result after its files were removed."""


@dataclass(frozen=True, slots=True)
class ParquetResult:
    """A result with a manifest for each run: see `publish`."""

    files: Files
    location: str

    def check(self) -> None: ...

    def prepare(self) -> None: ...

    def published(self, head: RunRecord) -> int | None:
        return publish.published(self.files, self.location, head.run, head.files)

    def due(self, record: RunRecord) -> int | None:
        return record.run

    def publish(self, record: RunRecord, before: RunRecord | None) -> None:
        publish.publish(self.files, self.location, record.run, record.files)

    def forget(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DeltaResult:
    """A result with a Delta transaction for each run with output."""

    definition: Definition
    files: Files

    def check(self) -> None:
        unknown = [
            k for k, _ in self.definition.create.properties if k.startswith("delta.") and k not in DELTA_PROPERTIES
        ]
        if unknown:
            known = ", ".join(DELTA_PROPERTIES)
            reason = f"of Delta's properties a view can have {known}, not {unknown[0]}"
            raise TidemillError("TIDEMILL_INVALID_CLAUSE", {"clause": "TBLPROPERTIES", "reason": reason})
        self._do("check", run=None, **self._described())

    def prepare(self) -> None:
        self._do("publish", run=None, files=[], before=None, **self._described())

    def published(self, head: RunRecord) -> int | None:
        run: int | None = self._do("published")
        return run

    def due(self, record: RunRecord) -> int | None:
        return record.output_run

    def publish(self, record: RunRecord, before: RunRecord | None) -> None:
        known = None if before is None else {"run": before.output_run, "files": _listed(before.files)}
        self._do("publish", run=record.output_run, files=_listed(record.files), before=known, **self._described())

    def forget(self) -> None:
        self._do("forget")

    def _described(self) -> dict[str, Any]:
        create = self.definition.create
        own = {DELETION_VECTORS: "true"} if self.definition.marks_rows else {}
        return {
            "name": self.definition.qualified,
            "schema": self.definition.schema,
            "partitions": list(create.partitioned_by),
            "properties": {**own, **dict(create.properties)},
            "comment": create.comment,
        }

    def _do(self, what: str, **arguments: Any) -> Any:
        definition = self.definition
        request = {"do": what, "location": definition.location, "view": definition.id, **arguments}
        answer = self.files.jvm.invoke("delta", request)
        if isinstance(answer, dict):
            raise TidemillError("TIDEMILL_FORMAT_UNSUPPORTED", {"format": "delta", "reason": answer["refused"]})
        return answer


def result_of(definition: Definition, files: Files) -> Result:
    """Returns the result of a view, by the format of its definition."""
    if definition.format == "delta":
        return DeltaResult(definition, files)
    return ParquetResult(files, definition.location)


def _listed(files: Sequence[File]) -> list[dict[str, Any]]:
    return [{key: f[key] for key in ("path", "bytes", "modified", "partition", "dv") if key in f} for f in files]
