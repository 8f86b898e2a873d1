"""Simulated worlds: real workers, with one seed for all that is random.

``seeds`` runs one ``world`` for each ``case``, and compares what came out by ``outputs``; a world draws its
``choices`` for its ``feed`` and its ``network``. ``shrink`` makes a case that fails smaller.
"""
