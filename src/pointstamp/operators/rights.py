"""An entry of the record that an output keeps of the rights that it has given: which object, which time."""

from typing import Any
from weakref import ref

from pointstamp.topology.domain import Time


class Right(ref[Any]):
    """The object that stands for a right, watched but not kept, and the time.

    It stands by itself because a compiled class cannot be a weak reference: the collector would crash.
    """

    __slots__ = ("number", "time")

    number: int
    time: Time
