"""The command line: one file for each subcommand, and what they print.

``main`` finds the subcommand, in a file of its name, and turns errors into one line and an exit code.
Subcommands that read a user's flow use ``flowfile`` or ``describe``; the files of ``run`` are read and
written by ``run_files``. ``sql`` starts ``sql_shell``, the loop of the interactive shell, whose tables and
views are in ``sql_session``. Long answers are printed by files that end in _display and by ``explanation``.
"""
