"""The dashboard: a page in a browser that shows a flow at work, served by the driver itself.

``server`` serves the files of ``static`` to clients that know the token, and takes a moment of a ``sight`` a
few times a second while a browser is connected; ``sight`` is the port to what is shown and a plan as the page
draws it. ``prometheus`` is a status as text for machines. What is shown is made in higher layers: a query, a
checkpoint, a trace.
"""
