"""The client over a URL: the methods of `Client`, answered by the HTTP service instead of by the database."""
