"""Gives a view its first content by a new query: CREATE, OR REPLACE, ALTER ... AS."""
