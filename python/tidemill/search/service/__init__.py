"""The planning service: the planner, its cache, and worker processes."""
