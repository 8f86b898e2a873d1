"""Flows as pictures: Mermaid text for pages that draw it, and SVG with a layout of its own.

``mermaid`` writes text. ``svg`` draws what ``layout`` has placed: ``boxes`` are the nodes, and each ``scene``
puts them into ``layers`` by their ``ranks``.
"""
