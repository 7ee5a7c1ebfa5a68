"""Estimation: the interface to cost models, cardinalities, distinct values, and all guesses."""
