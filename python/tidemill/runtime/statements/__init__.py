"""Executes the statements: a file for each, and the dispatch to them."""
