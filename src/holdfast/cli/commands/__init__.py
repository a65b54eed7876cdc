"""The words of the command line, by what one wants to do. What they do is imported when it is asked for."""
