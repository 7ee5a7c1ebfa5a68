"""What of an aggregate's change does not hang on the update, kept as aggregates of their own (DBToaster; HOV)."""

from tidemill.rule.pack import Pack

PACK = Pack(
    "higher_order",
    "DBToaster; HOV",
    "sub-queries that do not depend on the update, kept as views of their own",
    place=4,
)
