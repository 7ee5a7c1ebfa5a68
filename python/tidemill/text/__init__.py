"""Plans as text: printed for people and tests, parsed back, and canonical for the names of states."""
