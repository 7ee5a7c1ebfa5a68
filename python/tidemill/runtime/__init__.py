"""A statement from its value to its rows; each folder is one stage of that."""
