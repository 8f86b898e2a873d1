"""A query: a flow that runs on, with a crew of members, a coordinator and a supervisor.

``query`` is what a user holds; its thread runs ``supervisor``, which has ``beginning`` begin each generation
and a ``session`` drive it. The session carries orders between ``coordinator`` and ``crew``; each ``member``
follows them.
"""
