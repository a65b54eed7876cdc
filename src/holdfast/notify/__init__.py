"""What is sent to people and programs about what happens to jobs."""
