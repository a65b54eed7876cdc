"""Every decision about a job, as pure functions of its state, a signal and the time."""
