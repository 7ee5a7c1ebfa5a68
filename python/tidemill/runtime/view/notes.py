"""The scheduler's note on a view: what no log entry can have, because no run was committed.

The note is a file `_tidemill/scheduler/note.json`. A run that found nothing to do, or failed, has dealt with its points
all the same. The note is written over and no fence: if it gets lost, a point is fired once more. It has the id of its
view, so that one that a late writer leaves for a view that was dropped counts for no other one at that place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidemill.runtime.storage import beside
from tidemill.runtime.storage.files import child
from tidemill.runtime.storage.small import readable
from tidemill.runtime.view.definition import VIEW_FILE
from tidemill.runtime.view.fired import NOTHING_FIRED, REAL, Fired
from tidemill.runtime.view.views import View

FOLDER = "_tidemill/scheduler"
FILE = f"{FOLDER}/note.json"


@dataclass(frozen=True, slots=True)
class Failing:
    """Failures of a view, one after the other.

    `count`: how many there were. `retry_at`: when it is tried again (epoch seconds, by the clock of that name).
    `condition`, `message`: of the last one's error. `run`: the view's last run then (-1: none); a later one ends it.
    """

    count: int
    retry_at: float
    condition: str
    message: str
    run: int
    clock: str = REAL

    @property
    def reason(self) -> str:
        """The condition with its text, as the column `lastReason` shows it."""
        return f"{self.condition}: {self.message.removeprefix(f'[{self.condition}] ')}"


@dataclass(frozen=True, slots=True)
class Note:
    """`fired`: what was dealt with without a run. `early`: why the last run without output did nothing early.
    `failing`: the failures by the real clock; `rehearsed`: those by the simulated clock that was used last."""

    fired: Fired = NOTHING_FIRED
    failing: Failing | None = None
    early: str | None = None
    rehearsed: Failing | None = None

    def failing_at(self, run: int, clock: str = REAL) -> Failing | None:
        """Returns the failures that count by a clock for a view whose last run is `run` (-1: it has none).

        >>> failing = Failing(1, 60.0, "C", "m", 3)
        >>> note = NO_NOTE.failed(REAL, failing).failed("simulated", replace(failing, count=2, clock="simulated"))
        >>> note.failing_at(3).count, note.failing_at(3, "simulated").count, note.failing_at(4), note.failing_at(3, "x")
        (1, 2, None, None)
        """
        found = self.failing if clock == REAL else self.rehearsed
        return found if found is not None and (found.run, found.clock) == (run, clock) else None

    def failed(self, clock: str, failing: Failing | None) -> Note:
        """Returns the note with these failures by a clock."""
        return replace(self, failing=failing) if clock == REAL else replace(self, rehearsed=failing)

    def to_json(self) -> dict[str, Any]:
        failing, rehearsed = (None if found is None else asdict(found) for found in (self.failing, self.rehearsed))
        return {"fired": self.fired.to_json(), "failing": failing, "early": self.early, "rehearsed": rehearsed}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Note:
        """Returns it as `to_json` gave it, or an earlier version. Raises KeyError, TypeError or ValueError for anything
        else."""
        early = None if data["early"] is None else str(data["early"])
        failing, rehearsed = _failing(data["failing"]), _failing(data.get("rehearsed"))
        return Note(Fired.from_json(data["fired"]), failing, early, rehearsed)


def _failing(data: Mapping[str, Any] | None) -> Failing | None:
    if data is None:
        return None
    return Failing(
        count=int(data["count"]),
        retry_at=float(data["retry_at"]),
        condition=str(data["condition"]),
        message=str(data["message"]),
        run=int(data["run"]),
        clock=str(data["clock"]),
    )


NO_NOTE = Note()


def path(view: View) -> str:
    """Returns the file of the note."""
    return child(view.location, FILE)


def read(view: View) -> Note:
    """Returns the note on a view; an empty one if there is none, or if it is damaged or another view's."""
    return read_each([view])[0]


def read_each(found: Sequence[View]) -> list[Note]:
    """Returns the notes on views, in one call."""
    if not found:
        return []
    texts = found[0].files.read_many([path(view) for view in found])
    return [_of(view, text) for view, text in zip(found, texts, strict=True)]


def _of(view: View, text: str | None) -> Note:
    known = readable(text, lambda data: (data.get("id", view.definition.id), Note.from_json(data)))
    return known[1] if known is not None and known[0] == view.definition.id else NO_NOTE


def write(view: View, note: Note) -> None:
    """Writes the note over, unless the view is gone."""
    text = json.dumps({"id": view.definition.id, **note.to_json()}, ensure_ascii=False)
    beside.write(view.files, view.location, VIEW_FILE, FILE, text, lasting=False)


def forgive(view: View) -> None:
    """Forgets the failures of a view, so that it is tried again at once."""
    note = read(view)
    if note != (forgiven := Note(note.fired)):
        write(view, forgiven)
