"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery."""

__version__ = "0.1.0"
