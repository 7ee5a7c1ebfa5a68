"""Compares the content of a view with its query."""
