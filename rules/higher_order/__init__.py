"""Aggregates of an aggregate's join halves, which do not depend on the update, kept as relations (DBToaster; HOV)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "higher_order",
    "DBToaster; HOV",
    "sub-queries that do not depend on the update, kept as views of their own",
    place=4,
)
