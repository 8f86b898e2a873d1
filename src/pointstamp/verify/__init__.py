"""Verification of traces: real workers' events replayed on the models' state.

    events of workers -> trace -> conformance: every rule, after the run
                      +-> verifier -> online: the same rules, while it runs

``conformance`` verifies a complete ``trace``, ``online`` a run that continues; both use the rules
(``exchange_rules``, ``frontier_rules``, ``snapshot_rules``), which look at ``abstract_state`` over a
``shape``. ``verifier`` and ``verifier_process`` attach them to real runs. ``model_steps`` follows a trace
event by event, and ``recorded`` makes a page of it.
"""
