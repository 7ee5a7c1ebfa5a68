"""Recompute only what the change touches: groups and join keys."""
