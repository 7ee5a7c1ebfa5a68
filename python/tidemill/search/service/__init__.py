"""Who answers a request for a plan: the planner, its cache, and worker processes."""
