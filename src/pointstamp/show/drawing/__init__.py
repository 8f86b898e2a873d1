"""Flows as pictures: Mermaid text for pages that draw it, and SVG with a layout of its own."""
