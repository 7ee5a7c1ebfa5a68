"""Outer joins: the rows affected directly, and those of the old content affected indirectly (Larson & Zhou; OJV)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "outer_join_view",
    "Larson & Zhou; OJV",
    "directly and indirectly affected parts of outer joins, one input at a time",
    place=3,
)
