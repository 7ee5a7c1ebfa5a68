"""The session a run works in: a clone of the caller's with the view's captured settings and physical ones of its own.

The caller's session is never changed (design 9a.10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidemill.bridge.jvm import Jvm
from tidemill.settings import PREFIX, PlannerSettings

MEBIBYTE = 1 << 20
# Bytes of Parquet input for one shuffle partition.  200 partitions for a small delta cost four to eight times the CPU
# (spark-notes.md, "What makes a delta plan fast").
BYTES_PER_PARTITION = 32 * MEBIBYTE
# Below this much input plans run as they stand: re-planning at each shuffle makes each of its stages a job of its own,
# and jobs, not rows, are what a small refresh costs.
ADAPTIVE_FROM_BYTES = 64 * MEBIBYTE

PHYSICAL: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A bloom filter of the small side prunes the big one whatever the big one's size: more than half of Q3's CPU.
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    # Constraints of plans with many aliases, as changes of aggregates have, take Catalyst minutes to propagate.
    "spark.sql.constraintPropagation.enabled": "false",
    # What users set for their own output must not reach the view's files.
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Exact sums are aggregated as objects; the default of 128 groups would send nearly all of them through a sort.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # Listing many folders must not become a Spark job: a refresh with nothing to do runs none.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.parquet.compression.codec": "zstd",
}


def working(jvm: Jvm, captured: Mapping[str, str]) -> Jvm:
    """A clone of the caller's session for work on a view with these captured settings."""
    return jvm.clone({**PHYSICAL, **captured})


def size_partitions(jvm: Jvm, source_bytes: float | None) -> None:
    """Sets the number of shuffle partitions of a working session for this much input; the executors' cores at least."""
    cores = int(jvm.session.sparkContext().defaultParallelism())
    wanted = cores if source_bytes is None else max(cores, int(source_bytes // BYTES_PER_PARTITION) + 1)
    if source_bytes is None:
        wanted = max(cores, int(jvm.session.conf().get("spark.sql.shuffle.partitions")))
    jvm.session.conf().set("spark.sql.shuffle.partitions", str(wanted))
    if source_bytes is not None and source_bytes < ADAPTIVE_FROM_BYTES:
        jvm.session.conf().set("spark.sql.adaptive.enabled", "false")


def planner_settings(jvm: Jvm) -> PlannerSettings:
    """The caller's settings for planning.  Raises TIDEMILL_INVALID_SETTING."""
    conf = jvm.session.conf()
    # One text and a few look-ups: walking a Scala map over py4j costs a call for each of its keys.
    names = set(re.findall(rf"{re.escape(PREFIX)}[\w.]+", str(conf.getAll().keySet().toString())))
    return PlannerSettings.from_confs({name: str(conf.get(name)) for name in names})
