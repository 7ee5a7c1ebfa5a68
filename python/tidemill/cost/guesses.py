"""Guesses: numbers that stand for what nobody has counted, in one place.

They are about data and about what is to come, not about the machine: what work costs is measured, as constants of a
cost model. Where something was counted, no guess is asked.
"""

from __future__ import annotations

# -- sources ----------------------------------------------------------------------------------------------------------

SOURCE_ROWS = 1e6
"""Rows of a source without statistics."""
GROWN_ROWS = 1e7
"""Rows that the largest source is taken to have at least when states are chosen, the others in proportion. So many has
one of which nothing is known. More than `SOURCE_ROWS`, for states are chosen once, and tables grow."""
FILE_ROW_BYTES = 50
"""Bytes of a row in a columnar file, compressed: rows of files of which only the size is known."""
PART_ROW_BYTES = 48
"""Bytes of a row of a part of a rule's result, as Spark counts them in memory: five numbers. Not `FILE_ROW_BYTES`:
nothing is compressed there."""

# -- changes ----------------------------------------------------------------------------------------------------------

CHANGED_SHARE = 0.01
"""Share of a source's rows that change from run to run: one per cent."""
HELD_CYCLES = 10
"""Cycles of expected arrivals that a source is taken to hold at least when states are chosen, for tables grow."""
LARGE_SHARE = 0.1
"""Share of the largest source's rows from which on a source is large: nobody knows at first whether small ones change
at all."""
SMALL_DELETES_SHARE, SMALL_DELETES = 0.05, 10_000.0
"""Deleted rows up to which a change is small, as a share of its source, and at least: so few updates of columns that
nobody reads cost less to carry along than to net."""
RUNS_TO_EARN = 10
"""Runs within which a state, or its order, must have saved what it cost to make it: nobody knows how many will come."""

# -- conditions -------------------------------------------------------------------------------------------------------

EQUALITY_SHARE = 0.05
"""Share of rows that a comparison of a column with a literal for equality leaves, as in textbooks."""
CONDITION_SHARE = 0.4
"""Share of rows, or of a join's pairs of rows, that any other condition leaves that equates no columns."""
SEMI_SHARE = 0.5
"""Share of rows that a semi or anti join leaves where its other side is not given."""
LEAST_ANTI_SHARE = 0.1
"""Share of rows that an anti join leaves at the least: it is written where some have no partner."""
LIMIT_ROWS = 100.0
"""Rows of a LIMIT that is no literal."""

# -- values -----------------------------------------------------------------------------------------------------------

GROUPED_VALUES = 200.0
"""Distinct values of a column by which a query groups, until they are counted."""
VALUES_PER_ROW = 0.2
"""Distinct values per row of columns of one table of which nothing is known."""
ROWS_PER_KEY = 4
"""Rows that a filter by keys finds for each key, where nothing is known of how many keys there are."""
LEAST_KEY_SHARE = 0.0005
"""Share of rows that a filter by keys leaves at the least."""

# -- states -----------------------------------------------------------------------------------------------------------

UNCOUNTED_ROWS = 1.0
"""Rows of something kept that was not counted."""
LOOK_UP_FROM_ROWS = 50_000
"""Rows of a state from which on it pays to look keys up: what is smaller is read at once."""
