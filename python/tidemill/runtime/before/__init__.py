"""Prepares a run: analyses the query, takes positions and changes, and gets the plan."""
