"""The command line: what people type, what they read, and what the exit code says."""

from holdfast.cli.app import main

__all__ = ["main"]
