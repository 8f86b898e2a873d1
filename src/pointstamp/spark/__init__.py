"""Flows on Spark: DataFrames in and out, and workers that form from Spark tasks.

Users come in by ``Dataflow.run`` (``job``) and ``Dataflow.start`` (``streaming``); both run Spark in an
``errand`` of its own, and form workers (``forming``) from tasks (``crewtask``) that register at the
``rendezvous``. The workers of a bounded run are in ``bounded``, those of a query in ``crew``; rows get in by
``packing``, out by ``output`` and ``manifest``.
"""
