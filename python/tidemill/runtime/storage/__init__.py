"""Files and the log of commits; nothing here knows what a view is."""
