"""Statements of Tidemill: from text to values and back."""
