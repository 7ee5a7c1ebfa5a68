"""Guesses: numbers that stand for what nobody has counted, in one place.

They are about data and its changes, not about the machine: work is measured, as the constants of a cost model. A guess
is used only where nothing was counted.
"""

from __future__ import annotations

# -- sources ----------------------------------------------------------------------------------------------------------

SOURCE_ROWS = 1e6
"""Rows of a source without statistics."""
GROWN_ROWS = 1e7
"""Smallest number of rows assumed for the largest source when states are chosen; other sources grow in proportion. A
source without statistics is assumed to have as many. It is more than `SOURCE_ROWS` because states are chosen once, and
tables grow."""
FILE_ROW_BYTES = 50
"""Bytes of a row in a compressed columnar file; gives the rows of files of which only the size is known."""
PART_ROW_BYTES = 48
"""Bytes of a row of an inner part of a rule's result, as Spark counts them in memory: five numbers, not compressed."""

# -- changes ----------------------------------------------------------------------------------------------------------

CHANGED_SHARE = 0.01
"""Fraction of a source's rows that change from run to run: one per cent."""
CROSSED_SHARE = 0.01
"""Fraction of rows whose side of a bound changes because the clock moves from run to run: one per cent."""
HELD_CYCLES = 10
"""Smallest number of cycles of expected arrivals that a source is assumed to hold when states are chosen."""
LARGE_SHARE = 0.1
"""Smallest size of a large source, as a fraction of the largest source's rows; small ones may not change at all."""
SMALL_DELETES_SHARE, SMALL_DELETES = 0.05, 10_000.0
"""Largest number of deleted rows of a small change, as a fraction of its source's rows, and at least. To carry so few
updates of columns that nobody reads costs less than to net the change."""
MOST_NETTED, MOST_READ_TO_NET = 10_000.0, 100_000.0
"""Largest change, and largest number of rows to read for it, that is netted before a run is planned."""
NETTING_PAYS_FROM = 300.0
"""Smallest estimated CPU milliseconds of a plan for which a job that nets changes first pays: several times its own."""
RUNS_TO_EARN = 10
"""Number of runs within which a state or its order must save what it cost to make; the real number is unknown."""

# -- conditions -------------------------------------------------------------------------------------------------------

EQUALITY_SHARE = 0.05
"""Selectivity of a comparison of a column with a literal for equality, as in textbooks."""
CONDITION_SHARE = 0.4
"""Selectivity of any other condition that equates no columns, on rows or on pairs of rows of a join."""
SEMI_SHARE = 0.5
"""Selectivity of a semi or anti join whose other side is not given."""
LEAST_ANTI_SHARE = 0.1
"""Smallest selectivity of an anti join: a query has one because some rows have no partner."""
LIMIT_ROWS = 100.0
"""Rows of a LIMIT that is not a literal."""

# -- values -----------------------------------------------------------------------------------------------------------

GROUPED_VALUES = 200.0
"""Distinct values of a column by which a query groups, until they are counted."""
VALUES_PER_ROW = 0.2
"""Distinct values per row of other columns of a table."""
NEW_VALUE_SHARE = 0.1
"""Distinct values per row from which on new rows are taken to have new values."""
ROWS_PER_KEY = 4
"""Rows per key that a filter by keys finds, if the number of keys is unknown."""
LEAST_KEY_SHARE = 0.0005
"""Smallest selectivity of a filter by keys."""
ROWS_SINCE = 10
"""Rows back to the last one in which a value is not NULL, where a window fills in missing values."""

# -- states -----------------------------------------------------------------------------------------------------------

UNCOUNTED_ROWS = 1.0
"""Rows of a state, content or held change that was not counted."""
LOOK_UP_FROM_ROWS = 50_000
"""Smallest number of rows of a state for which a look-up pays; a smaller state is read whole."""
STORED_SHARE = 0.5
"""Bytes of a state on storage per byte of its rows in memory, until they are measured: files are compressed."""
GROWTH = 1.1
"""What a state takes after a run that follows it, beside what it took before: its segments are merged only later."""
