"""The version of this package, where everything may look without importing more."""

__version__ = "0.1.0"
