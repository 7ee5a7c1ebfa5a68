"""The scheduler's note on a view: what no log entry can have, because no run was committed.

The note is a file `_tidemill/scheduler/note.json`. A run that found nothing to do, or failed, has dealt with its points
all the same. The note is written over and no fence: if it gets lost, a point is fired once more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidemill.runtime.storage.files import child
from tidemill.runtime.storage.small import readable
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
    """`fired`: what was dealt with without a run. `early`: why the last run without output did nothing early."""

    fired: Fired = NOTHING_FIRED
    failing: Failing | None = None
    early: str | None = None

    def failing_at(self, run: int) -> Failing | None:
        """Returns the failures that count for a view whose last run is `run` (-1: it has none)."""
        return self.failing if self.failing is not None and self.failing.run == run else None

    def to_json(self) -> dict[str, Any]:
        failing = asdict(self.failing) if self.failing is not None else None
        return {"fired": self.fired.to_json(), "failing": failing, "early": self.early}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Note:
        failing = Failing(**data["failing"]) if data["failing"] is not None else None
        return Note(Fired.from_json(data["fired"]), failing, data["early"])


NO_NOTE = Note()


def path(view: View) -> str:
    """Returns the file of the note."""
    return child(view.location, FILE)


def read(view: View) -> Note:
    """Returns the note on a view; an empty one if there is none, or if it is damaged."""
    return read_each([view])[0]


def read_each(found: Sequence[View]) -> list[Note]:
    """Returns the notes on views, in one call."""
    if not found:
        return []
    texts = found[0].files.read_many([path(view) for view in found])
    return [readable(text, Note.from_json) or NO_NOTE for text in texts]


def write(view: View, note: Note) -> None:
    """Writes the note over."""
    view.files.write(path(view), json.dumps(note.to_json(), ensure_ascii=False), lasting=False)


def forgive(view: View) -> None:
    """Forgets the failures of a view, so that it is tried again at once."""
    note = read(view)
    if note.failing is not None or note.early is not None:
        write(view, replace(note, failing=None, early=None))
