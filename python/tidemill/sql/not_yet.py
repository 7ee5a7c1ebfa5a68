"""The clauses that this version parses but does not support, one row each. To support a clause, delete its row.

A clause is looked up by the name that its reader gave to `Cursor.mark`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.errors import TidemillError
from tidemill.sql.cursor import TextRange

# Clause -> what to do instead; full sentences.
NOT_YET: Mapping[str, str] = {
    "USING iceberg": "Use USING parquet or USING delta.",
    "FINAL WORK": "Leave the clause out.",
    "TOTAL WORK": "Leave the clause out.",
    "ITERATE": "Write a query instead.",
    "SAMPLE": "Leave the clause out to verify all rows.",
    "ALTER INCREMENTAL VIEW ... SET FINAL WORK": "Drop the view and create it again.",
    "ALTER INCREMENTAL VIEW ... SET TOTAL WORK": "Drop the view and create it again.",
}


def check(clauses: Sequence[tuple[str, TextRange]]) -> None:
    """Raises TIDEMILL_NOT_YET for the first of the clauses that this version does not support."""
    for clause, span in sorted(clauses, key=lambda given: given[1]):
        if clause in NOT_YET:
            raise TidemillError("TIDEMILL_NOT_YET", {"clause": clause, "detail": NOT_YET[clause]}, span)
