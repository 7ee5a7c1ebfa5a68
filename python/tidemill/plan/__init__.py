"""The query: expressions, operators, trees, derived properties, and the planner's normal form."""
