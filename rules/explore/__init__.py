"""Other ways to write a relation, for snapshots and deltas alike (System R, Cascades)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "explore",
    "System R, Cascades",
    "other ways to write a relation: join order, push-down of aggregates and filters",
    place=8,
)
