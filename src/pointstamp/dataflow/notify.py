"""Notifications: who asked to be told that a time is complete, and in which order they are told.

They are delivered in a linear extension of the order of times, so that of two comparable times the earlier
is told first. The Abadi-Isard semantics does not promise that (a request for 3 may be served before one for
2 that was asked by the same node), and programs rely on it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from pointstamp.dataflow.capability import Capability
from pointstamp.topology.domain import Time

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Request(Generic[P]):
    """A request to be told that a time is complete, made while handling something of ``port``."""

    time: Time
    port: P | None
    held: Sequence[Capability]


class Notifications(Generic[P]):
    """The pending requests of one operator, each with the capabilities that are held for it."""

    __slots__ = ("_asked", "_heap", "_numbered", "_requests")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int]] = []
        self._requests: dict[int, Request[P]] = {}
        self._asked: dict[Time, int] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._requests)

    def is_asked(self, time: Time) -> bool:
        """Whether a request for this time is pending."""
        return time in self._asked

    def ask(self, sort_key: Any, request: Request[P]) -> None:  # noqa: ANN401 - any sort key
        """Add a request, with the capabilities to hold until it is served."""
        number = self._asked[request.time] = self._numbered
        self._numbered += 1
        self._requests[number] = request
        heappush(self._heap, (sort_key, number))

    def requests(self) -> list[Request[P]]:
        """The pending requests, in the order in which they were made."""
        return list(self._requests.values())

    def pending(self) -> list[Time]:
        """The times that are asked for, in no particular order."""
        return list(self._asked)

    def ready(self, is_complete: Callable[[Time], bool]) -> Iterator[Request[P]]:
        """Take out, in order, the requests whose time is complete, also those made meanwhile.

        Frontiers stand still during an activation, so a time that is not complete stays so.
        """
        waiting: list[tuple[Any, int]] = []
        try:
            while self._heap:
                entry = heappop(self._heap)
                request = self._requests[entry[1]]
                if is_complete(request.time):
                    del self._requests[entry[1]]
                    del self._asked[request.time]
                    yield request
                else:
                    waiting.append(entry)
        finally:
            for entry in waiting:
                heappush(self._heap, entry)
