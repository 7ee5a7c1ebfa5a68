"""The record of a run: the content of its log entry, as the runtime reads and writes it.

It has everything that the next run needs (live files, states, positions), and everything that SHOW REFRESHES shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemill.plan.kinds import SOURCE_KINDS, SourceKind, one_of
from tidemill.runtime.storage.small import UnknownFormatError
from tidemill.runtime.view.arrivals import Arrived
from tidemill.runtime.view.fired import NOTHING_FIRED, Fired
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.split import Split, StepSpent, steps_from_json, steps_to_json
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.cycles import NO_CYCLES, Cycles
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.past import NOTHING_PAST, Past, PastRun
from tidemill.search.contract.stored import Piece

FORMAT = 3
MARKED_FORMAT = 4
"""The format of an entry whose files have deletion vectors: a reader that does not know these must not read it."""
ARRIVED = "arrived"
SPLIT = "split"
File = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceAt:
    """A source as a run has read it: its name and id as analysed then, and its position (None: it has none).

    `values`: the distinct values of fields as the first run counted them, and as they grew with the rows since then.
    """

    name: str
    id: str | None
    kind: SourceKind
    position: Any
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """A base, a segment, or what some of them were merged into; all but `files` as in the planner's `Piece`."""

    files: tuple[File, ...]
    rows: int
    taken: int
    segments: int
    order: str | None = None

    def counted(self) -> Piece:
        """Returns the piece as the planner needs it, without files."""
        size = sum(int(f["bytes"]) for f in self.files)
        return Piece(len(self.files), self.rows, self.taken, self.segments, self.order, size)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state kept after a run: its description by the planner (see `StateSpec`), and its pieces in order of writing.

    `run`: the run without output whose positions the state has; None: it has those of the content. `before`: the number
    of pieces of such a state that were there at the content's positions; None: all.
    """

    form: str
    columns: tuple[tuple[str, str], ...]
    text: str
    pieces: tuple[StoredPiece, ...]
    group: str = ""
    parts: tuple[str, ...] = ()
    run: int | None = None
    before: int | None = None

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(f for p in self.pieces for f in p.files)

    @property
    def rows(self) -> int:
        """The number of rows in all pieces; a key may be in several."""
        return sum(p.rows for p in self.pieces)

    @property
    def bytes(self) -> int:
        return sum(int(f["bytes"]) for f in self.files)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run.

    `files`: the live files of the result. `output_run` and `output_at`: the last run with output (this one, if it had
    output) and its end (epoch microseconds); None before the initial load. `sources`: the positions of the content, and
    of states unless they have others. `moments`: the positions of later runs without output that a state or the held
    change has. `held`: the held change, up to run `held_run`. `fingerprint`: of the query as analysed. `functions`:
    fingerprints of the session functions. `keys`: output columns that are a key of the content, None if it is a bag.
    `delta`: files of the signed change of the content by this run, None if it was not computed (a full run).
    `definition`: number of the definition that the content belongs to. `compacted`: states with a compaction in this
    run. `arrived`: the arrivals at the sources; the history keeps them with the row. `chosen`: the choice of the kept
    states; None: unknown. `dropped`: states that the run gave up for want of room, each with the reason. `cycles`: what
    came in the last cycles. `rows`: of the content; None: unknown. `split`: where its time went, which the history
    keeps too (None: a version that did not measure it); `steps`: what its steps took. `past`: what runs of the
    definition took, this one included; `learned`: by what factors their estimates were off. `fired`: what of the
    schedule was dealt with.
    """

    run: int
    row: RunRow
    output_run: int | None
    output_at: int | None
    files: tuple[File, ...]
    states: Mapping[str, StoredState]
    sources: tuple[SourceAt, ...]
    fingerprint: str
    functions: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    delta: tuple[File, ...] | None = None
    definition: int = 0
    compacted: tuple[str, ...] = ()
    moments: Mapping[int, tuple[SourceAt, ...]] = field(default_factory=dict)
    held: tuple[StoredPiece, ...] = ()
    held_run: int | None = None
    arrived: Arrived | None = None
    chosen: Choice | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)
    cycles: Cycles = NO_CYCLES
    rows: int | None = None
    split: Split | None = None
    steps: tuple[StepSpent, ...] = ()
    past: Past = NOTHING_PAST
    learned: Learned = NOTHING_LEARNED
    fired: Fired = NOTHING_FIRED

    @property
    def filled(self) -> bool:
        return self.output_run is not None

    @property
    def state_bytes(self) -> int:
        held = sum(int(f["bytes"]) for f in self.held_files)
        return held + sum(s.bytes for s in self.states.values())

    @property
    def content_files(self) -> tuple[File, ...]:
        """The files that the content is read from: live files, and the files of their deletion vectors."""
        vectors = {f["dv"]["path"]: f["dv"] for f in self.files if "dv" in f}
        return (*self.files, *vectors.values())

    @property
    def held_files(self) -> tuple[File, ...]:
        return tuple(f for p in self.held for f in p.files)

    @property
    def stands_at(self) -> tuple[tuple[SourceAt, ...], ...]:
        """The positions of content and states: the content's first, then those of runs without output."""
        later = tuple(self.moments[run] for run in sorted(self.moments))
        return (self.sources, *later) if self.filled or not later else later

    def moment_of(self, run: int | None) -> int:
        """Returns the number in `stands_at` of a run without output; of the content for None."""
        if run is None:
            return 0
        return sorted(self.moments).index(run) + (1 if self.filled else 0)

    def values_of(self, name: str) -> Mapping[str, float]:
        """Returns the distinct values of the fields of a source at the first moment, as far as they are known."""
        return next((s.values for s in self.stands_at[0] if s.name == name), {})

    def position_of(self, name: str, moment: int = 0) -> Any:
        """Returns the position of the source of that name at a moment of `stands_at`; None if this record has none."""
        return next((s.position for s in self.stands_at[moment] if s.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Returns the log entry. The JVM too reads `output`, `files`, `rows`, `delta` and `metrics`, for downstream
        views."""
        return {
            "format": MARKED_FORMAT if any("dv" in f for f in self.files) else FORMAT,
            "run": self.run,
            "output": self.output_run == self.run,
            "output_run": self.output_run,
            "output_at": self.output_at,
            "files": [dict(f) for f in self.files],
            "rows": self.rows,
            "delta": None if self.delta is None else [dict(f) for f in self.delta],
            "states": {name: asdict(s) for name, s in self.states.items()},
            "sources": [asdict(s) for s in self.sources],
            "definition": self.definition,
            "compacted": list(self.compacted),
            "moments": {str(run): [asdict(s) for s in sources] for run, sources in self.moments.items()},
            "held": [asdict(p) for p in self.held],
            "held_run": self.held_run,
            "chosen": None if self.chosen is None else self.chosen.to_json(),
            "dropped": dict(self.dropped),
            "cycles": self.cycles.to_json(),
            "fingerprint": self.fingerprint,
            "functions": dict(self.functions),
            "keys": None if self.keys is None else list(self.keys),
            "steps": steps_to_json(self.steps),
            "past": [{name: v for name, v in asdict(run).items() if name != "methods"} for run in self.past.runs],
            "past_methods": [list(run.methods) for run in self.past.runs],  # earlier versions leave it alone
            "learned": self.learned.to_json(),
            "fired": self.fired.to_json(),
            "metrics": self.row.to_json() | self._beside_row(),
        }

    def _beside_row(self) -> dict[str, Any]:
        """Returns what the history keeps beside the row."""
        told = {ARRIVED: self.arrived, SPLIT: self.split}
        return {name: value.to_json() for name, value in told.items() if value is not None}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RunRecord:
        """Returns the record of a log entry. Raises ValueError for a format that this version does not know."""
        if data.get("format") not in {FORMAT, MARKED_FORMAT}:
            raise UnknownFormatError(
                f"it is of format {data.get('format')}; this version of Tidemill reads formats {FORMAT} and"
                f" {MARKED_FORMAT}"
            )
        return RunRecord(
            run=data["run"],
            row=RunRow.from_json(data["metrics"]),
            output_run=data["output_run"],
            output_at=data["output_at"],
            files=tuple(data["files"]),
            states={name: _state(s) for name, s in data["states"].items()},
            sources=tuple(map(_source_at, data["sources"])),
            fingerprint=data["fingerprint"],
            functions=data["functions"],
            keys=None if data["keys"] is None else tuple(data["keys"]),
            delta=None if data["delta"] is None else tuple(data["delta"]),
            definition=data["definition"],
            compacted=tuple(data["compacted"]),
            moments={int(run): tuple(map(_source_at, sources)) for run, sources in data["moments"].items()},
            held=tuple(map(_piece, data["held"])),
            held_run=data["held_run"],
            arrived=arrived_of(data["metrics"]),
            chosen=None if data.get("chosen") is None else Choice.from_json(data["chosen"]),
            dropped=data.get("dropped") or {},
            cycles=Cycles.from_json(data["cycles"]) if data.get("cycles") else NO_CYCLES,
            rows=data.get("rows"),
            split=split_in(data["metrics"]),
            steps=steps_from_json(data.get("steps") or ()),
            past=_past(data),
            learned=Learned.from_json(data["learned"]) if data.get("learned") else NOTHING_LEARNED,
            fired=Fired.from_json(data["fired"]) if data.get("fired") else NOTHING_FIRED,
        )


def _past(data: Mapping[str, Any]) -> Past:
    """Returns what runs took; their methods are not known if a version has written the entry that did not keep them."""
    runs = data.get("past") or ()
    methods = data.get("past_methods") or [()] * len(runs)
    return Past(tuple(PastRun(**run, methods=tuple(used)) for run, used in zip(runs, methods, strict=True)))


def sizes_of(files: Sequence[File]) -> tuple[list[int], list[int]]:
    """Returns the bytes and the rows of files, 0 rows where they were not counted."""
    return [int(f["bytes"]) for f in files], [int(f.get("rows") or 0) for f in files]


def arrived_of(metrics: Mapping[str, Any]) -> Arrived | None:
    """Returns the arrivals in a run's row of the history; None for a row of a version that did not record them."""
    return None if metrics.get(ARRIVED) is None else Arrived.from_json(metrics[ARRIVED])


def split_in(metrics: Mapping[str, Any]) -> Split | None:
    """Returns the split in a run's row of the history; None for a row of a version that did not measure it."""
    return None if metrics.get(SPLIT) is None else Split.from_json(metrics[SPLIT])


def _source_at(data: Mapping[str, Any]) -> SourceAt:
    kind = one_of(SOURCE_KINDS, data["kind"], "a source's kind")
    return SourceAt(data["name"], data["id"], kind, data["position"], data.get("values") or {})


def _state(data: Mapping[str, Any]) -> StoredState:
    columns = tuple((str(field), str(kind)) for field, kind in data["columns"])
    pieces = tuple(map(_piece, data["pieces"]))
    told = (data["form"], columns, data["text"], pieces, data["group"], tuple(data["parts"]))
    return StoredState(*told, data["run"], data["before"])


def _piece(data: Mapping[str, Any]) -> StoredPiece:
    return StoredPiece(tuple(data["files"]), data["rows"], data["taken"], data["segments"], data.get("order"))
