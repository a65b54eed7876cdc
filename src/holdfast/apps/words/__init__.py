"""Handlers that count the words of text files, for `holdfast demo`.

Serve the handlers with `--handlers holdfast.apps.words`.
"""

from holdfast.apps.words.handlers import NOT_TEXT, count, list_texts, report

__all__ = ["NOT_TEXT", "count", "list_texts", "report"]
