"""`tidemill calibrate`: measures the constants of the cost model on the machine that it runs on (docs/costs.md)."""
