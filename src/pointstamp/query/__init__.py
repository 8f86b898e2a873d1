"""Queries: flows that run continuously, with workers, a coordinator and a supervisor.

    query -> supervisor -> recovery -> session: one generation
                                         |  coordinator: ticks out, commits in
                                         |  crew: members, each a worker that follows the ticks

``query`` is what a user holds; its thread runs ``supervisor``, which restarts generations. ``recovery`` turns
the checkpoint into what a driver needs, ``start_checks`` decides before it whether the query may start. A
``session`` carries orders between ``coordinator`` and ``crew``; each ``member`` follows its ``mission`` and
saves state by ``snapshot_writer``. ``intake`` is what sources have offered. ``local_query`` has its crew in
processes of this machine. ``query_page``, ``page_data`` and ``timeline`` are what the dashboard shows.
"""
