"""The janitor: looks for inconsistencies and makes the owners of jobs repair them. One duty per file."""
