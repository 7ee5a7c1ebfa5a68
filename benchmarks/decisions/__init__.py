"""Decisions of the planner, judged: cells of view, tables and change, AUTO beside every alternative."""
