"""Makes the working session of a run: a clone of the caller's with the view's captured settings and physical settings.

The caller's session is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.cost.costing import LOOKED_UP_KEYS
from tidemill.settings import PREFIX, SETTINGS, PlannerSettings

MEBIBYTE = 1 << 20
# Bytes of Parquet input for one shuffle partition.  200 partitions for a small delta cost four to eight times the CPU
# (spark-notes.md, "What makes a delta plan fast").
BYTES_PER_PARTITION = 32 * MEBIBYTE
# Rows for one shuffle partition: with fewer, a second task costs more than the work it takes over.
ROWS_PER_PARTITION = 100_000
# Up to this many rows a plan is interpreted: to generate code, and to look it up, takes longer than to do without.
INTERPRETED_ROWS = 5_000
# The same for rows that are only read, and filtered or joined with a broadcast: a microsecond each.
INTERPRETED_READ = 20_000
# Below this much input plans are not adapted: re-planning at each shuffle makes each stage a job of its own, and a
# small refresh costs jobs, not rows.
ADAPTIVE_FROM_BYTES = 64 * MEBIBYTE
# Up to this many joins, too. Without adapting, the broadcasts of a plan wait for each other in Spark's 128 threads, for
# ever if these are all taken. An adaptive plan begins a broadcast when those below it are there.
MOST_JOINS = 32

FIXED = frozenset(setting.name for setting in SETTINGS if setting.scope == "startup")
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
PHYSICAL: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A bloom filter of the small side prunes the big one where both are shuffled: more than half of Q3's CPU. Spark's
    # own threshold of 10 GB is for clusters; without any, filters of big sides are built to prune small changes.
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": str(ADAPTIVE_FROM_BYTES),
    # Constraints of plans with many aliases, as changes of aggregates have, take Catalyst minutes to propagate.
    "spark.sql.constraintPropagation.enabled": "false",
    # CREATE has replaced `${...}` already: variables of another session must not get into the query.
    "spark.sql.variable.substitute": "false",
    # What users set for their own output must not reach the view's files.
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.parquet.outputTimestampType": "INT96",
    # Exact sums are aggregated as objects; the default of 128 groups would send nearly all of them through a sort.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # Listing many folders must not become a Spark job: a refresh with nothing to do runs none.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.parquet.compression.codec": "zstd",
    # Look-ups in a state pass at most this many keys to Parquet; of more values it gets only the range.
    "spark.sql.parquet.pushdown.inFilterThreshold": str(LOOKED_UP_KEYS),
    # Code with the values of a run in it would be compiled in each run.
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
    # A file that cannot be read is an error, or the view would silently lose its rows.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


def captured(jvm: Jvm) -> dict[str, Any]:
    """Returns what gives a query's text its meaning in the caller's session: "confs", "catalog" and "namespace".

    Settings that Tidemill itself sets in every working session are left out.
    """
    found: dict[str, Any] = jvm.invoke("settings", {})
    return {**found, "confs": {name: value for name, value in found["confs"].items() if name not in PHYSICAL}}


def working(jvm: Jvm, captured: Mapping[str, str]) -> Jvm:
    """Returns a clone of the caller's session for work on a view with these captured settings."""
    return jvm.clone({**captured, **PHYSICAL})


def fit(
    jvm: Jvm,
    source_bytes: float | None,
    rows: float = inf,
    read: float = inf,
    joins: int = 0,
    scanned: float = inf,
) -> dict[str, str]:
    """Returns the settings that fit a working session to one step: shuffle partitions, adaptive execution, code
    generation.

    `source_bytes`: of all sources; 0 if the step reads only changes and states, None if unknown. `rows`: estimated
    number of rows that it shuffles; `read`: that it reads of changes and states; `scanned`: of snapshots of sources.
    `joins`: number of joins in its plan.
    """
    if source_bytes is None:
        most = max(jvm.cores, int(jvm.session.conf().get(SHUFFLE_PARTITIONS)))
    else:
        most = max(jvm.cores, int(source_bytes // BYTES_PER_PARTITION) + 1)
    wanted = most if rows == inf else min(most, max(1, ceil(rows / ROWS_PER_PARTITION)))
    small = rows <= INTERPRETED_ROWS and read + (0.0 if source_bytes == 0 else scanned) <= INTERPRETED_READ
    adaptive = joins > MOST_JOINS or (not small and (source_bytes is None or source_bytes >= ADAPTIVE_FROM_BYTES))
    compiled = not small
    return {
        SHUFFLE_PARTITIONS: str(wanted),
        "spark.sql.adaptive.enabled": str(adaptive).lower(),
        "spark.sql.codegen.wholeStage": str(compiled).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiled else "NO_CODEGEN",
    }


def planner_settings(jvm: Jvm) -> PlannerSettings:
    """Returns the caller's settings for planning. Raises TIDEMILL_INVALID_SETTING."""
    answer = jvm.invoke("prefixed", {"prefix": PREFIX})
    own = {name: value for name, value in answer["session"].items() if name not in FIXED}
    # Not the session's value: rule packs are code, and some front ends set a session's settings unchecked.
    fixed = {name: value for name, value in answer["application"].items() if name in FIXED}
    return PlannerSettings.from_confs({**own, **fixed})
