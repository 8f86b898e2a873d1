"""The dashboard: a web page that shows a flow, served by the driver.

``server`` serves the files of ``static`` to clients that know the token, and takes a moment of a ``sight`` a
few times a second while a browser is connected; ``sight`` is the port to what is shown and a plan as the page
draws it. ``prometheus`` is a status as text for machines. What is shown is made in higher layers: a query, a
checkpoint, a trace.
"""
