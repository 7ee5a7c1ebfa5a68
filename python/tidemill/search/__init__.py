"""The search for the cheapest plan of a run; each folder is one step of it."""
