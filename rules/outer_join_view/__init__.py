"""Outer joins by what a change affects directly, and what of the previous content indirectly (Larson & Zhou; OJV)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "outer_join_view",
    "Larson & Zhou; OJV",
    "directly and indirectly affected parts of outer joins, one input at a time",
    place=3,
)
