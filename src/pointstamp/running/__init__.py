"""Runs without a journal: in this process and in several, fed and watched.

``driving`` lets ``feeding`` feed a run and steps it: ``local`` has its workers here, ``processes`` speaks by
``messages`` to those of a ``gang``. ``status`` says how far a run is, ``results`` holds what came out.
"""
