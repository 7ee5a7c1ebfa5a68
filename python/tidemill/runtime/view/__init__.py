"""A view in storage: its definition, its log entries, its result, and the leases of its readers."""
