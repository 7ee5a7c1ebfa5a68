"""The JVM as Python sees it: one JSON text each way."""
