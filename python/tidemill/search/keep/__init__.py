"""The choice of states to keep between runs, their orders, and the compaction of their pieces."""
