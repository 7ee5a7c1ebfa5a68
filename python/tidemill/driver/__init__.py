"""How Tidemill meets a Spark: attaching to a driver, answering its calls, running as its planner process."""
