"""What starts by the clock: one process at a time looks which schedules have a tick, and submits their jobs."""
