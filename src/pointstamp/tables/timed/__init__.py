"""Tables and event time: rows that wait for it, sessions, and what is forgotten when it has passed.

``until`` keeps rows until their time is over, or sends them then. ``sessions`` are those of a table,
``open_sessions`` those that are forgotten when they are over, ``epoch_sessions`` those of epochs.
"""
