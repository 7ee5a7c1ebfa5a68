"""A view at rest: its definition, its log entries, its result, and who reads it."""
