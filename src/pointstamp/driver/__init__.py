"""Drivers of workers: bounded runs, and the messages of all drivers.

    inputs -> run_loop -> feeder -> local: workers in this process
                                 +-> processes -> messages -> gang of bounded workers
    results and status <- reports of the workers

``local_run`` steps n workers in this process. ``processes`` runs them in a ``gang``, whose members are
started by ``fork_server`` and run ``bounded_worker``. ``messages`` is the protocol between a driver and its
workers, and ``worker_loop`` the loop of a worker that follows it; queries and Spark use both. ``feeder``
feeds a flow with flow control, ``status`` says how far a run is, ``results`` holds the rows, and ``liveness``
reports workers that hang.
"""
