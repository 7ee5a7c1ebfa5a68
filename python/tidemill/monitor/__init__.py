"""Tells what happens to views: in the log, and over HTTP as health and metrics. It knows neither Spark nor views."""
