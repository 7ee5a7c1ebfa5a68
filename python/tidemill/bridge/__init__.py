"""The bridge between Spark's JVM and the planner: py4j in both directions, one JSON text each way."""
