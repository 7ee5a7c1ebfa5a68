"""Rules: how they are written, found and run."""
