"""What the planner is asked, and what it answers."""
