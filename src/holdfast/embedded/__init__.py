"""A Postgres that Holdfast starts itself if the user has none. Knows nothing of workflows or of our tables."""
