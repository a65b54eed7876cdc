"""The simulation's scenarios on the real store and a real Postgres; a seed chooses who goes next, and what breaks."""
