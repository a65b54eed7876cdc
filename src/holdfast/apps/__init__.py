"""Apps: handlers and commands for one field of work. They use only the public interface."""
