"""What can be asked of Holdfast and done with it: the same for the command line, for programs and for a service.

An operation that depends on who acts takes a `Scope` first. Knows no terminal, no arguments of commands and no HTTP.
"""
