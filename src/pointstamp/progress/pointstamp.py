"""Pointstamps and changes to their counts.

A pointstamp is a time at a port: "there is a message at this input", "this output may still send" (Abadi &
Isard 2015; Brun et al. 2021, section 2). Messages are counted, not rows. Progress between workers is
nothing but changes to the counts of pointstamps.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, NewType, cast

from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location

WorkerIndex = NewType("WorkerIndex", int)
"""The number of a worker, from 0."""


class Pointstamp(NamedTuple):
    """A time at a location."""

    location: Location
    time: Time


class Change(NamedTuple):
    """A change of the count of one pointstamp."""

    location: Location
    time: Time
    diff: int


change_of: Final = cast("Callable[[tuple[Location, Time, int]], Change]", partial(tuple.__new__, Change))
"""The change of these three parts, made without a call of Python's own, for the inner loops."""
