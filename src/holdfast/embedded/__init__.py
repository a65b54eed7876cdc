"""A Postgres that Holdfast starts by itself, for whoever has none. Knows nothing of workflows or of our tables."""
