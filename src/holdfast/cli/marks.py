"""The symbols and colours by which people recognise a status."""

from __future__ import annotations

from holdfast.views.held import PAUSED

STYLES = {
    "completed": "green",
    "failed": "red",
    "partial": "yellow",
    "cancelled": "magenta",
    "running": "cyan",
    "dispatched": "blue",
    "ready": "blue",
    "skipped": "dim",
    "pending": "dim",
    PAUSED: "yellow",
}
SYMBOLS = {
    "completed": "✔",
    "failed": "✘",
    "partial": "◐",
    "cancelled": "⊘",
    "running": "▶",
    "dispatched": "…",
    "ready": "…",
    "skipped": "↷",
    "pending": "·",
    PAUSED: "⏸",
}
DOUBTED = ("⚠", STYLES["partial"])
"""Completed, and its rows contradict each other."""
