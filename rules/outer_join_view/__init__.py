"""Outer joins by what a change affects directly, and what of the previous content indirectly (Larson & Zhou; OJV)."""
