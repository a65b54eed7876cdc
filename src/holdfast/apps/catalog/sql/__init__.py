"""The catalog's statements and its migrations."""
