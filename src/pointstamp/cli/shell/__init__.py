"""The shell of ``pointstamp sql --interactive``: tables that are changed by hand, and what views make of it.

``reading`` cuts what is typed into statements, ``session`` has the tables and the flow of the views,
``changing`` works out what INSERT, DELETE and UPDATE change, ``display`` draws, and ``loop`` asks for the
next statement.
"""
