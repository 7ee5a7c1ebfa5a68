"""Lowering: from the chosen expressions to plans on the wire."""
