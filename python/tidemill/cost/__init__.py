"""What things are worth: the interface to cost models, sizes, distinct values, and every guess."""
