"""A log as it is after many runs, written by Python alone: one entry, again and again under the next number."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote


def grow(location: str, runs: int) -> None:
    """Adds copies of the newest entry, each as the next run, until the log has so many."""
    folder = Path(unquote(location.removeprefix("file:"))) / "_tidemill" / "log"
    newest = max(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())
    entry = json.loads((folder / f"{newest:020d}.json").read_text())
    changed = {"run": -1, "output_run": -1, "mark": "MARK", "metrics": {**entry["metrics"], "run": -1, "row": -1}}
    text = json.dumps({**entry, **changed})
    for run in range(newest + 1, runs):
        (folder / f"{run:020d}.json").write_text(text.replace(": -1", f": {run}").replace("MARK", f"{run:032x}"))
    # what Hadoop's checksum of the hint was is no longer true
    (folder / ".newest.crc").unlink(missing_ok=True)
    (folder / "newest").write_text(str(runs - 1))
