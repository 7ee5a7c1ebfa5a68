"""From what was chosen to plans on the wire."""
