"""What is worth keeping between runs, in which order, and when its pieces are put together."""
