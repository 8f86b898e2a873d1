"""Every error that pointstamp raises, drawn as one tree.

    PointstampError
    +-- TopologyError      a graph that cannot be run was described
    +-- ProgressError      the progress protocol was broken: a gap, a duplicate, an unknown port
    +-- UsageError         a command was given something it does not know
    +-- InternalError      a broken invariant of ours; never the user's fault

A message says who, what was needed, what came and what to do.
"""


class PointstampError(Exception):
    """Something went wrong that pointstamp can name."""


class TopologyError(PointstampError):
    """A graph was described that cannot be run: the message names the operators."""


class ProgressError(PointstampError):
    """The progress protocol between workers was broken: the message names the peer and what was expected."""


class UsageError(PointstampError):
    """A command was given something it does not know: one line, exit code 2."""


class InternalError(PointstampError):
    """An invariant of pointstamp itself is broken; please report it with the message."""
