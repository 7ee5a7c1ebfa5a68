"""The search for the cheapest plan of a run; each folder is one part of it."""
