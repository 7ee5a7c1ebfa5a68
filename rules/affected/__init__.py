"""Recompute only what the change touches: groups and join keys."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "affected",
    "folklore; DBSP, pg_ivm",
    "only the groups, partitions or keys that the changes touch are computed again",
    place=6,
    basic=True,
)
