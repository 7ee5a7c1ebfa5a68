"""The plan IR: expressions, operators, trees, the query document, derived properties, text and wire formats."""
