"""The inbox of an operator: waiting batches by input and time.

Batches of one input and one time are handed over together, in the order in which they came: small batches
would otherwise split further with every exchange in a loop. Between different times there is no order to
keep; the one whose first batch has waited longest comes first.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import pyarrow as pa

from pointstamp.topology.domain import Time

COALESCE_ROWS_MAX: Final = 65_536
"""Waiting batches are brought together up to about this many rows."""


Waiting: TypeAlias = tuple[int, Time, pa.RecordBatch, int]
"""What is handed over at once: an input, a time, the rows, and how many messages brought them."""


class Inbox:
    """Changed by the worker that runs the operator."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[tuple[int, Time], list[pa.RecordBatch]] = {}

    def put(self, port: int, time: Time, batch: pa.RecordBatch) -> None:
        """Let a batch wait."""
        place = (port, time)
        if place in self._batches:
            self._batches[place].append(batch)
        else:
            self._batches[place] = [batch]

    def pull(self) -> Waiting:
        """Take out what has waited longest, with what waits for the same input and time."""
        place = next(iter(self._batches))
        batches = self._batches[place]
        if len(batches) == 1:
            del self._batches[place]
            return (place[0], place[1], batches[0], 1)
        rows = taken = 0
        while taken < len(batches) and rows < COALESCE_ROWS_MAX:
            rows += batches[taken].num_rows
            taken += 1
        if taken == len(batches):
            del self._batches[place]
        else:
            self._batches[place] = batches[taken:]
        return (place[0], place[1], pa.concat_batches(batches[:taken]), taken)

    def __len__(self) -> int:
        return sum([len(batches) for batches in self._batches.values()])

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[tuple[int, Time, pa.RecordBatch]]:
        return iter([(*place, batch) for place, batches in self._batches.items() for batch in batches])
