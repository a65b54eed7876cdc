"""What can be asked of Holdfast and done with it: the same for the command line, for programs and for a service.

Every operation takes a `Scope` first: for whom it acts. Knows no terminal, no arguments of commands and no HTTP.
"""
