"""A STAC catalog in plain Postgres: what was made, where it lies, which job made it, and a static copy for others."""
