"""The format of a view's result: how the files that the log names are shown to those who do not read the log.

Whatever the format, the files are the same Parquet files, written by `apply`, and publishing comes after the commit and
can always be done again. `parquet`: Spark's own file-sink manifest. `delta`: a Delta table at the location, whose
transactions add and remove those files and carry the number of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.errors import TidemillError
from tidemill.runtime.storage import publish
from tidemill.runtime.storage.files import Files
from tidemill.runtime.view.definition import Definition
from tidemill.runtime.view.record import File, RunRecord

DELTA_LOG = "_delta_log"
FOLDERS = (publish.FOLDER, DELTA_LOG)
"""Folders below a location that belong to what shows the result."""
DELTA_PROPERTIES = (
    "delta.checkpointInterval",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
)
"""Those of Delta's own table properties that a view may have: all others concern how its files are written."""


class Result(Protocol):
    """Shows the content of a view."""

    def check(self) -> None:
        """Raises what stands against a view of this definition in this format; writes nothing."""

    def prepare(self) -> None:
        """Makes what a view needs that is not filled yet."""

    def published(self) -> int | None:
        """The number of what is shown, to be compared with `due`; None if nothing is, or something else."""

    def due(self, record: RunRecord) -> int | None:
        """The number under which a record with content is shown."""

    def publish(self, record: RunRecord, before: RunRecord | None) -> None:
        """Shows the content of `record`, unless that, or a newer one, is shown already.

        `before`: what is shown now, as far as it is known.
        """

    def forget(self) -> None:
        """The files are gone."""


@dataclass(frozen=True, slots=True)
class ParquetResult:
    """A manifest for each run: see `publish`."""

    files: Files
    location: str

    def check(self) -> None: ...

    def prepare(self) -> None: ...

    def published(self) -> int | None:
        return publish.published(self.files, self.location)

    def due(self, record: RunRecord) -> int | None:
        return record.run

    def publish(self, record: RunRecord, before: RunRecord | None) -> None:
        publish.publish(self.files, self.location, record.run, record.files)

    def forget(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DeltaResult:
    """A Delta transaction for each run with output."""

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

    def published(self) -> int | None:
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
        return {
            "name": self.definition.qualified,
            "schema": self.definition.schema,
            "partitions": list(create.partitioned_by),
            "properties": dict(create.properties),
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
    """The result of a view, by the format of its definition."""
    if definition.format == "delta":
        return DeltaResult(definition, files)
    return ParquetResult(files, definition.location)


def _listed(files: Sequence[File]) -> list[dict[str, Any]]:
    return [{key: f[key] for key in ("path", "bytes", "modified", "partition") if key in f} for f in files]
