"""Other ways to write a relation, for snapshots and deltas alike (System R, Cascades)."""
