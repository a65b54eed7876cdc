"""A STAC catalog in plain Postgres: which files exist, where they are, which job made them. Can be exported."""
