"""Simulated worlds: real workers, with one seed for all that is random.

``seeds`` runs one ``world`` for each ``case``, and compares the outputs of runs; a world draws random choices
for its ``feed`` and its ``network``. ``shrink`` makes a case that fails smaller. Queries with crashes are in
``crash``.
"""
