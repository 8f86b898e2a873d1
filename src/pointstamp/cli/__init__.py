"""The command line, ."""
