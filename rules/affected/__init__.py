"""Recomputes only the groups, partitions and join keys that the change touches."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "affected",
    "folklore; DBSP, pg_ivm",
    "only the groups, partitions or keys that the changes touch are computed again",
    place=6,
    basic=True,
)
