"""Flows on Spark: the gang of barrier tasks, the crews of queries, DataFrames in and out.

``job`` runs a flow to its end: ``packing`` brings rows to the tasks of ``gang``, which meet by ``meeting``,
and ``manifest`` publishes. ``streaming`` starts a query, whose members are the tasks of ``crew`` and whose
streaming DataFrames become an ``inputlog``.
"""
