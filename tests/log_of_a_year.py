"""A log as it is after many runs, written by Python alone: one entry, again and again under the next number."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

from tidemill.runtime.storage import publish
from tidemill.runtime.storage.log import SPAN


def grow(location: str, runs: int, vacuumed: bool = False) -> None:
    """Adds copies of the newest entry, each as the next run, until the log has so many.

    `vacuumed`: all but the last thousand to two thousand are in checkpoints, as VACUUM leaves them.
    """
    root = Path(unquote(location.removeprefix("file:"))) / "_tidemill"
    folder = root / "log"
    newest = max(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())
    entry = json.loads((folder / f"{newest:020d}.json").read_text())

    def of(run: int) -> dict[str, object]:
        own = {
            "run": run,
            "output_run": run,
            "mark": f"{run:032x}",
            "metrics": {**entry["metrics"], "run": run, "row": run},
        }
        return {**entry, **own}

    covered = (runs // SPAN - 1) * SPAN if vacuumed else 0
    for first in range(0, covered, SPAN):
        (root / "checkpoints").mkdir(exist_ok=True)
        rows = [{name: of(run)[name] for name in ("mark", "metrics")} for run in range(first, first + SPAN)]
        (root / "checkpoints" / f"{first // SPAN:020d}.json").write_text(json.dumps(rows))
    for run in range(max(newest + 1, covered), runs):
        (folder / f"{run:020d}.json").write_text(json.dumps(of(run)))
    # what Hadoop's checksum of the hint was is no longer true
    (folder / ".newest.crc").unlink(missing_ok=True)
    (folder / "newest").write_text(str(runs - 1))
    _publish(root.parent, runs)


def _publish(location: Path, runs: int) -> None:
    """What plain readers see is the last run, under its number."""
    manifests = sorted((location / publish.FOLDER).glob("*.compact"), key=lambda path: int(path.stem))
    if manifests:
        text = manifests[-1].read_text()
        for path in (location / publish.FOLDER).iterdir():
            path.unlink()
        for run in range(runs - publish.KEPT, runs):
            (location / publish.FOLDER / f"{run}.compact").write_text(text)
