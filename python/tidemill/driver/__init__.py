"""Connects Tidemill with Spark: attaches to a driver, answers its calls, runs as its planner process."""
