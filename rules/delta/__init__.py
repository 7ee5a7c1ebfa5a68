"""Delta queries per operator, and deltas merged into snapshots (Griffin & Libkin; Tempura IM-1)."""
