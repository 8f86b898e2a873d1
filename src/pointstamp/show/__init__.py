"""Displays: a flow as text and as a graph, and a running flow.

``describe`` writes a plan as text with what it keeps, and ``mermaid`` draws it as a chart and an HTML page.
``live`` shows the status of a run in a terminal and ``query_display`` that of a query. None of them
looks into a worker.
"""
