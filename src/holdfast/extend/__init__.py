"""For apps, ours and others': commands, settings, and a schema of their own beside the engine's.

Public. `commands` has what sub-commands are made of, `database` migrations and statements, `settings` the variables.
"""
