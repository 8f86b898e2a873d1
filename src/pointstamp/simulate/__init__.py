"""Simulated worlds: the same workers, with one seed deciding what is left to chance.

``seeds`` runs one ``world`` for each ``case``, and compares what came out by ``outputs``; a world draws its
``choices`` for its ``feed`` and its ``network``. ``shrink`` makes a case that fails smaller.
"""
