"""The kinds of run, a file each: incremental, early, anew; and what they share."""
