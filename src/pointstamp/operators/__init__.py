"""A running operator and its context.

``interface`` declares what an operator may have, each method with its default. ``context`` is what it
calls; it asks ``authority`` what the operator may do now, and hands out each ``capability`` and request to
``notify``. What an output has given and sent is in ``portstate``, each right as an entry of ``rights``.
``stateless`` has the built-in operators without state and the ends of a flow, and ``watermark`` is the event
time before which no row is expected.
"""
