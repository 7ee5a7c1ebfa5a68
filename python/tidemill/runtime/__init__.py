"""Executes statements, from their values to their rows; each folder is one stage of that."""
