"""The public interface for apps: commands, hooks, settings, and a database schema beside the engine's.

`addresses` knows which addresses are public, `commands` has the parts of sub-commands, `database` migrations and
statements, `job_hooks` what is called when a job has ended, `settings` the variables.
"""
