"""What people look at: a flow as text and as a graph, a run while it works.

``describe`` writes a plan as text, ``mermaid`` as a chart and ``page`` as an HTML page. ``live`` shows the
status of a run, laid out by ``standing``, and ``query_display`` that of a query. ``trace_sight`` is a
recorded run for a dashboard. None of them looks into a worker.
"""
