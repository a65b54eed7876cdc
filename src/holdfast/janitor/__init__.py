"""The janitor: looks for what is not as it should be, and makes the owners look. One duty per file."""
