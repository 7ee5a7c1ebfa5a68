"""The cost models: cardinalities and operator costs. Replaceable; the core knows only `tidemill.cost.costing`."""
