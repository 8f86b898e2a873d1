"""The judge of traces: real workers' events replayed on the models' state.

``conformance`` judges a whole ``trace``, ``online`` a run that continues; both ask the rules
(``exchange_rules``, ``frontier_rules``, ``notification_rules``, ``cut_rules``), which look at ``abstract``
over a ``shape``. ``bounded`` and ``online_process`` sit beside real runs. ``replaying`` follows a trace with
``stepping``, and makes of it what is ``recorded`` for a page.
"""
