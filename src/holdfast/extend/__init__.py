"""The public interface for apps: commands, settings, and a database schema beside the engine's.

`addresses` knows which addresses are public, `commands` has the parts of sub-commands, `database` migrations and
statements, `settings` the variables.
"""
