"""Flows on Spark: DataFrames in and out, and workers that form from Spark tasks.

    Dataflow.run -> job -> worker_formation: tasks register at the rendezvous -> bounded workers -> DataFrames
    Dataflow.start -> streaming -> input_log -> crew of crew_tasks, spare crews -> published epochs

``job`` and ``streaming`` run Spark in an ``errand``, a separate thread, and form workers
(``worker_formation``) from tasks (``crew_task``) that register at the ``rendezvous``. ``warm_up`` lets idle
executors load what the next workers need. The workers of a
bounded run are in ``bounded``, those of a query in ``crew``; ``slots`` decides how many. Rows get in by
``row_packing``, and ``frames`` checks DataFrames at both ends. ``catalyst`` translates Spark's plans.
"""
