"""The version of the distribution: of the Python package, and of the jar that is compiled with it."""

__version__ = "0.1.0"
