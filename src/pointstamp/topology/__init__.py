"""Ports, times, path summaries and the graph of a flow, compiled and validated."""
