"""Pointstamps, the tracker of frontiers, and the broadcast of progress.

``view`` is what a worker holds: it hands changes to ``broadcast``, and what comes of all workers to
``tracker``, which has the frontiers. ``why`` reads a tracker, and says who holds a frontier back.
"""
