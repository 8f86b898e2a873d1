"""Records of the capabilities that an output has issued.

This stands apart from the record, which can be compiled: a compiled class cannot be a weak reference, and a
compiled function must not be what one calls. It would not keep its argument, and while it strikes the entry
from the record no other object does.
"""

import warnings
from collections.abc import Callable
from typing import Any
from weakref import ref

from pointstamp.errors import PointstampWarning
from pointstamp.topology.domain import Time


class Right(ref[Any]):
    """The object that stands for a right, watched but not kept, and the time."""

    __slots__ = ("number", "time")

    number: int
    time: Time


def when_collected(lose: Callable[[Right], str | None]) -> Callable[[Right], None]:
    """The callback of a right when its object is collected: ``lose``, which returns the changes to report."""

    def collected(right: Right) -> None:
        mistake = lose(right)
        if mistake is not None:
            warnings.warn(mistake, PointstampWarning, stacklevel=2)

    return collected
