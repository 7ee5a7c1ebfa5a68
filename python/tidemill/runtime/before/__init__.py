"""What is known before a run: the analysed query, positions and changes, the plan."""
