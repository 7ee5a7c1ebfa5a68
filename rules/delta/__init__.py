"""Delta queries per operator, and deltas merged into snapshots (Griffin & Libkin; Tempura IM-1)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "delta",
    "Griffin & Libkin; Tempura IM-1",
    "delta queries per operator, merged into the snapshots",
    place=1,
    basic=True,
)
