"""The content of a view, changed: which rows leave, where they are, and what is written."""
