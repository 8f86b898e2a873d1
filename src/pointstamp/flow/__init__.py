"""The nodes of a flow: physical streams, custom operators, and the plan that workers run.

    physical_stream, custom_operator -> builder -> plan -> workers

``physical_stream`` has the operations of streams; each adds nodes by ``builder`` through an ``outlet``, which
rejects keys without a common type and updates that must not be aggregated (``updates``). ``plan`` is plain
data: operators, pacts and chains. ``reduction`` builds aggregations, ``watermarks`` finds in a plan which
promises about event time a stream has, and ``event_epochs`` are epochs that are event time.
"""
