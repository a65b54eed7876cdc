"""Everything that Holdfast can be asked to show or do: the same for the command line, for programs and for a service.

An operation on jobs takes a `Scope` first: the tenant and the actor. Knows no terminal, no command arguments, no HTTP.
"""
