"""The simulation's scenarios on the real store and a real Postgres. A seed draws the next process and the faults."""
