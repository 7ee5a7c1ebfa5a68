"""Files and the log of commits. Nothing here knows what a view is."""
