"""What people look at: a flow in words and as a drawing, a run while it works.

``describe`` reads a plan, and ``drawing`` draws it. ``live`` shows the status of a run, laid out by
``standing``, and ``query_display`` that of a query. ``trace_sight`` is a recorded run
for a dashboard. None of them looks into a worker.
"""
