"""The HTTP service: everything that the command line can do, for programs and people, each with an identity."""
