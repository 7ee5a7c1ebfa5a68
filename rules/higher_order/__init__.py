"""What of an aggregate's change does not hang on the update, kept as aggregates of their own (DBToaster; HOV)."""
