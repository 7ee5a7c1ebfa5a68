"""The command: run the benchmarks, fit the constants, show them, write the file."""

from __future__ import annotations

import errno
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.calibrate.benchmarks import BENCHMARKS, RECIPES, Data
from tidemill.calibrate.fit import Fitted, Samples, fitted
from tidemill.calibrate.measure import Measure
from tidemill.cost.costing import Calibrated, Constant
from tidemill.cost.models import SETTING, cost_model, text
from tidemill.runtime.before.sessions import PHYSICAL, SHUFFLE_PARTITIONS
from tidemill.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 5
STEP_SETTINGS = {**PHYSICAL, "spark.sql.adaptive.enabled": "false", SHUFFLE_PARTITIONS: "2"}
"""The settings of a run's step over little data."""
NOISE = 0.15
"""A fraction of a value. If half of the rounds differ by more, the machine was busy with other things."""


def calibrate(
    spark: SparkSession, output: Path, rounds: int = ROUNDS, scale: float = 1.0, say: Callable[[str], None] = print
) -> Mapping[str, Fitted]:
    """Measures the constants of the default model and writes them to `output`, all of them or none.

    Args:
        rounds: how often each benchmark is measured, after one round to warm up.
        scale: multiplies the benchmarks' sizes. Below 1 the constants are of no use.
        say: receives the lines for people.

    Raises:
        OSError: `output` cannot be written. This is checked before anything is measured.
    """
    model = cost_model("default")
    assert isinstance(model, Calibrated)
    output = Path(output).absolute()
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(output))
    _write(output.with_name(f".{output.name}.part"), "").unlink()

    shipped = {c.name: c.value for c in model.constants}
    found = fitted(RECIPES, measured(spark, rounds, scale, say), shipped)
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "spark": spark.version,
        "tidemill": __version__,
        "rounds": rounds,
    }
    constants = [replace(c, value=found[c.name].value) for c in model.constants if c.name in found]
    _write(output.with_name(f".{output.name}.part"), text(model.name, constants, about)).replace(output)
    for shown in (*table(model.constants, found), *_advice(output, found)):
        say(shown)
    return found


def measured(spark: SparkSession, rounds: int, scale: float, say: Callable[[str], None]) -> Samples:
    """Returns the CPU milliseconds of all benchmarks. It measures round by round, so that other work on the machine
    disturbs all benchmarks alike.
    """
    session = spark.newSession()
    for name, value in STEP_SETTINGS.items():
        session.conf.set(name, value)
    seen: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in benchmark.scaled(scale)} for name, benchmark in BENCHMARKS.items()
    }
    with tempfile.TemporaryDirectory(prefix="tidemill-calibrate-") as folder:
        data = Data(session, Path(folder))
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            for name, sizes in seen.items():
                for size, times in sizes.items():
                    with Measure(session) as spent:
                        BENCHMARKS[name].run(data, size)
                    if number:
                        times.append(spent.cpu_ms)
    return seen


def table(constants: Sequence[Constant], found: Mapping[str, Fitted]) -> Iterator[str]:
    """Yields the lines of a table of the constants."""
    yield _line("constant", "unit", "shipped", "measured", "+/-", "cost of")
    for c in constants:
        value = off = note = ""
        if new := found.get(c.name):
            value, off = f"{new.value:.3g}", f"{new.off / new.value:.0%}"
            note = " (lost in the noise: the least that it can be)" if new.lost else ""
        yield _line(c.name, c.unit, f"{c.value:.3g}", value, off, c.doc + note)


def _line(name: str, unit: str, shipped: str, measured: str, off: str, doc: str) -> str:
    return f"{name:<15} {unit:<8} {shipped:>9} {measured:>9} {off:>6}  {doc}"


def _advice(output: Path, found: Mapping[str, Fitted]) -> Iterator[str]:
    yield ""
    if apart := [name for name, f in found.items() if f.lost or f.off > NOISE * f.value]:
        yield f"The rounds differ in {', '.join(apart)}. If the machine was busy, calibrate again when it is not."
    yield f"{output} is written. To plan with it, put this line into spark-defaults.conf:"
    yield ""
    yield f"{SETTING} {output}"


def _write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path
