"""The command line: one file for each subcommand, and what they show.

``main`` finds the subcommand, in a file of its name, and turns errors into one line and a code. Those that
read a user's flow ask ``flowfile`` or ``describe``; what is printed of long answers stands in files that end
in _display.
"""
