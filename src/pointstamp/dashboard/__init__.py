"""The dashboard: a page in a browser that shows a flow at work, served by the driver itself.

``server`` serves the files of ``static`` and what a ``sight`` says, to who knows the token. ``beat`` makes a
moment of it a few times a second while a browser is connected. ``drawn`` is a plan as the page draws it, and
``prometheus`` a status as text for machines. What is shown is made above: of a query, a checkpoint, a trace.
"""
