"""Workers execute: they claim tasks, run handlers and report, always under a lease."""
