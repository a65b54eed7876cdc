"""Where the workers of a test get their tasks: from the database, or over HTTP. The fixture `each_source` chooses."""

from __future__ import annotations

DATABASE, HTTP = "database", "http"
kind = DATABASE
