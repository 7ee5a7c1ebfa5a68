"""Selects the cost model, with its shipped constants or those from a file of `tidemill calibrate`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidemill.cost.costing import Calibrated, Constant, CostModel
from tidemill.errors import TidemillError

SETTING = "spark.tidemill.cost.constants"
FORMAT = "tidemill cost constants 1"
MOST = 1e12
"""Largest value of a constant. Larger ones are absurd, and costs of large plans would be infinite, or numbers too large
to compare."""
MOST_BYTES = 1 << 16
"""Largest size of a file of constants; a larger file was not written by `tidemill calibrate`."""


def cost_model(name: str, path: str = "") -> CostModel:
    """The cost model of this name; if it has constants and `path` is not empty, with the constants from that file.

    A file is read once, and again after it has changed.

    Raises:
        TidemillError: TIDEMILL_NOT_YET if there is no such model, TIDEMILL_INVALID_SETTING if the file cannot be used.
    """
    model = _shipped(name)
    if not path or not isinstance(model, Calibrated) or not model.constants:
        return model
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise ValueError("it is no such file")
        return _calibrated(name, path, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise _refused(path, f"it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _refused(path, str(error)) from error


def _shipped(name: str) -> CostModel:
    module = f"tidemill.cost_model.{name}"
    known = importlib.import_module(module) if importlib.util.find_spec(module) is not None else None
    model: CostModel | None = getattr(known, "MODEL", None)  # a file there may hold what several models share
    if model is None:
        raise TidemillError("TIDEMILL_NOT_YET", {"clause": f"spark.tidemill.cost.model={name}", "detail": ""})
    return model


@lru_cache(maxsize=8)
def _calibrated(name: str, path: str, *_: int) -> CostModel:
    """The model with the constants from a file; the numbers identify the file's version, for the cache."""
    model = _shipped(name)
    assert isinstance(model, Calibrated)
    return model.calibrated(values(Path(path).read_bytes(), model))


def values(content: bytes, model: Calibrated) -> dict[str, float]:
    """The constants in the content of a file, by name.

    Raises:
        ValueError: if it is not a file of constants, or they are not this model's.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    # The message does not repeat content of foreign files.
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("it is no such file")
    if found.get("model") != model.name:
        raise ValueError(f"it is for the cost model {found.get('model')}, not {model.name}")
    constants = found.get("constants")
    if not isinstance(constants, dict):
        raise ValueError("it holds no constants")
    known = {c.name for c in model.constants}
    if unknown := sorted(constants.keys() - known):
        raise ValueError(f"the model has no constant {', '.join(unknown)}")
    if missing := [c.name for c in model.constants if c.measured and c.name not in constants]:
        raise ValueError(f"it lacks {', '.join(missing)}, which this version measures: calibrate again")
    for name, value in constants.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 / MOST <= value <= MOST:
            raise ValueError(f"{name} is no number between {1 / MOST:g} and {MOST:g}")
    return {name: float(value) for name, value in constants.items()}


def text(model: str, constants: Sequence[Constant], about: Mapping[str, Any]) -> str:
    """The content of a file of constants; `about`: how they were measured, for people."""
    measured = {c.name: float(f"{c.value:.3g}") for c in constants if c.measured}
    return json.dumps({"format": FORMAT, "model": model, "constants": measured, "about": about}, indent=2) + "\n"


def _refused(path: str, why: str) -> TidemillError:
    expected = f"a file that tidemill calibrate wrote ({why})"
    return TidemillError("TIDEMILL_INVALID_SETTING", {"setting": SETTING, "value": path, "expected": expected})
