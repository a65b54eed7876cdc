"""The simulation's scenarios on the real store and a real Postgres. A seed chooses which process runs next, and what
breaks."""
