"""What is never retracted now, the rest when it is due (stream computing; Tempura IM-2)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "positive_negative",
    "stream computing; Tempura IM-2",
    "the part of a query that is never retracted now, the rest when it is due",
    place=2,
)
