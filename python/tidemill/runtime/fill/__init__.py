"""Gives a view content by a query that it did not have: CREATE, OR REPLACE, ALTER ... AS."""
