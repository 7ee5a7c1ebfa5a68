"""Parses Tidemill's statements into values, and renders values as text."""
