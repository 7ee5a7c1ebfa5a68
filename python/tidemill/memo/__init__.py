"""The memo: groups of equivalent expressions, time-varying relations with their forms and links, events, invariants."""
