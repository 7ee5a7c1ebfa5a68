"""The kinds of runs, one file each (incremental, early, anew), and their common parts."""
