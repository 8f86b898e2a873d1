"""Notifications: requests by time, and the order of delivery.

They are delivered in a linear extension of the order of times, so that of two comparable times the earlier
is told first. The Abadi-Isard semantics does not promise that (a request for 3 may be served before one for
2 that was asked by the same node), and programs rely on it.

Times that are not comparable, (0, 5) and (1, 0) in a loop, are told as they become complete. An operator that
keeps something from one time to the next needs more: it takes its times *in order*, epochs first and then
rounds, outermost first. Of all times that it asked for it is told only the first, and only when nothing at or
before that time in this order can come any more. So (1, 0) waits while epoch 0 goes round. Meanwhile it keeps
no operator waiting: what it may lead to comes later in the same order, and so does everything that is fed
back.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from pointstamp.errors import FlowError
from pointstamp.operators.capability import Capability
from pointstamp.operators.portstate import InputState
from pointstamp.topology.domain import Time


class Request:
    """A request to be told that a time is complete, made while handling something of ``port``."""

    __slots__ = ("held", "port", "time")

    def __init__(self, time: Time, port: InputState | None, held: Sequence[Capability]) -> None:
        self.time = time
        self.port = port
        self.held = held


class Notifications:
    """The pending requests of one operator, each with the capabilities that are held for it."""

    __slots__ = ("_asked", "_heap", "_numbered", "_requests")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int]] = []
        self._requests: dict[int, Request] = {}
        self._asked: dict[Time, int] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._requests)

    def is_asked(self, time: Time) -> bool:
        """Return whether a request for this time is pending."""
        return time in self._asked

    def ask(self, sort_key: Any, request: Request) -> None:  # noqa: ANN401 - any sort key
        """Add a request, with the capabilities to hold until it is served."""
        number = self._asked[request.time] = self._numbered
        self._numbered += 1
        self._requests[number] = request
        heappush(self._heap, (sort_key, number))

    def requests(self) -> list[Request]:
        """The pending requests, in the order in which they were made."""
        return list(self._requests.values())

    def pending(self) -> list[Time]:
        """The times that are asked for, in no particular order."""
        return list(self._asked)

    def has_ready(self, is_complete: Callable[[Time], bool], *, in_order: bool) -> bool:
        """Whether a request can be served: any of them, or the first where they are served in order."""
        if in_order:
            return bool(self._heap) and is_complete(self._requests[self._heap[0][1]].time)
        for request in self._requests.values():  # noqa: SIM110 - any() takes longer
            if is_complete(request.time):
                return True
        return False

    def serve(self, is_complete: Callable[[Time], bool], tell: Callable[[Request], None]) -> None:
        """Take out and tell, in order, the requests whose time is complete, also those made meanwhile.

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
                    tell(request)
                else:
                    waiting.append(entry)
        finally:
            for entry in waiting:
                heappush(self._heap, entry)

    def serve_in_order(
        self, is_settled: Callable[[Time], bool], who: str, tell: Callable[[Request], None]
    ) -> None:
        """Take out and tell the first request as long as it is settled; nothing can come before it."""
        while self._heap:
            sort_key, number = self._heap[0]
            request = self._requests[number]
            if not is_settled(request.time):
                return
            heappop(self._heap)
            self._check_is_first(sort_key, request.time, who)
            del self._requests[number]
            del self._asked[request.time]
            tell(request)

    def _check_is_first(self, sort_key: Any, time: Time, who: str) -> None:  # noqa: ANN401 - any sort key
        """Refuse two times that are both the first; all of one key are asked for when one is settled."""
        if self._heap and self._heap[0][0] == sort_key:
            other = self._requests[self._heap[0][1]].time
            raise FlowError(
                f"operator '{who}' receives its times in order, but {time[0]!r} and {other[0]!r} have the "
                "same sort_key, so neither of them is the first. Define a sort_key that is different for "
                "all times."
            )
