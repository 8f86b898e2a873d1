"""The main loop of a worker: step, follow orders, sleep.

``serve`` is the same for a worker of a bounded run in a process, for a member of a query, in a process and in
a Spark task, and for a task of a gang on Spark. The object that is served defines what a step is and what an
order means (``Served``). It ends when that has left, and by an exception when it fails, or when the driver or
another member is gone. Beside it a thread looks out for long calls (``running.lookout``), and where events
are judged they are told (``running.telling``): also those before a failure, which may be what the judge
objects to.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from time import monotonic, process_time
from typing import Final, Protocol, TypeVar

from pointstamp.driver.event_reports import EventTeller
from pointstamp.driver.liveness import BoardCell, Lookout, Sign
from pointstamp.driver.messages import AskLoad, InCall, Load, OperatorLoad, Order, TellEvents, order_in
from pointstamp.errors import PointstampError
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import Body
from pointstamp.worker.instance import Instance
from pointstamp.worker.lineage import LINEAGE, children_end_with_us, end_copy
from pointstamp.worker.worker import Worker

# How long an idle worker sleeps at most; only a bound, everything that matters wakes it.
_SLEEP_SECONDS: Final = 1.0
# How long it keeps progress that nobody waits for, while nothing arrives.
_HOLDS_SECONDS: Final = 0.002


class Served(Protocol):
    """One worker with what it does in its kind of run; used by the thread that serves it alone."""

    @property
    def worker(self) -> Worker:
        """The worker."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether it has done its work, or was told to leave."""
        ...

    def step(self) -> bool:
        """Do one thing and report what that has changed; False where there is nothing to do without news."""
        ...

    def follow(self, order: Order, bodies: Sequence[Body] = ()) -> None:
        """Take an order, with the bodies that came with it."""
        ...

    def close(self) -> None:
        """End the run and drop all capabilities."""
        ...


AnyServed = TypeVar("AnyServed", bound=Served)


def serve(
    start: Callable[[], AnyServed],
    transport: ZmqTransport,
    *,
    tell_call: Callable[[InCall | Load], None] | None = None,
    teller: EventTeller | None = None,
    sign: Sign | None = None,
) -> AnyServed:
    """Start a worker and let it work until it has left; returned is what was started.

    ``tell_call`` is called by a separate thread, too; without it, long calls are not detected, and the load
    of the worker is not reported. ``sign`` shows an outside observer of the process that it is not
    stuck in native code.
    """
    served: AnyServed | None = None
    lookout: Lookout | None = None
    meter: LoadMeter | None = None
    try:
        served = start()
        instances = served.worker.instances.values()
        if isinstance(sign, BoardCell):
            for instance in instances:
                instance.board = sign
        if tell_call is not None or sign is not None:
            lookout = Lookout(instances, tell_call, None if sign is None else sign.beat)
        if tell_call is not None:
            meter = LoadMeter([served.worker])
        transport.gather(is_on=True)
        with children_end_with_us():
            _serve(served, transport, teller, lambda asked: _tell_load(meter, tell_call, asked))
    except Exception:
        if teller is not None:
            with suppress(PointstampError):  # the driver may be gone, too
                teller.flush()
        raise
    finally:
        transport.gather(is_on=False)
        if lookout is not None:
            lookout.end()
        if sign is not None:
            sign.end()
        if meter is not None:
            meter.end()
        if served is not None:
            served.close()
    return served


# The load of workers: waiting rows, busy operators and memory.
#
# Operators keep no clock. How busy each is, is found by looking: a thread of its own looks many times a
# second which operator its worker is inside of, and counts. It samples only while a reader asks: it starts
# with the first question, and ends when none has come for a moment. So whoever is not watched pays nothing.

_LOOK_SECONDS: Final = 0.04
LARGEST_KEYS: Final = 5
"""So many keys of each thing that is kept are named."""
_UNASKED_SECONDS_MAX: Final = 5.0
"""After so long without a question the thread ends."""


class LoadMeter:
    """The load of workers of this process; asked by the thread that steps them, between two steps."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._looks = 0
        self._seen: list[dict[int, int]] = [{} for _ in workers]
        self._asked_seconds = 0.0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def told(self, number: int = 0, *, with_keys: bool = False) -> Load:
        """The reported load of one worker, by its index."""
        self._asked_seconds = monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="pointstamp-load", daemon=True)
            self._thread.start()
        worker, seen = self._workers[number], self._seen[number]
        return Load(
            monotonic(),
            memory_bytes(),
            process_time(),
            self._looks,
            [_operator(each, seen.get(index, 0)) for index, each in worker.instances.items()],
            worker.largest_keys(LARGEST_KEYS) if with_keys else None,
        )

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            if monotonic() - self._asked_seconds > _UNASKED_SECONDS_MAX:
                return
            self.look()

    def look(self) -> None:
        """Count the operators that workers are inside of at this moment."""
        self._looks += 1
        for worker, seen in zip(self._workers, self._seen, strict=True):
            for index, instance in worker.instances.items():
                if instance.calling is not None:
                    seen[index] = seen.get(index, 0) + 1


def memory_bytes() -> int:
    """The memory that this process holds; 0 if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _operator(instance: Instance, seen: int) -> OperatorLoad:
    waiting = [batch.num_rows for _, _, batch in instance.inbox]
    return OperatorLoad(
        instance.index, len(waiting), sum(waiting), instance.rows_in, instance.rows_out, instance.calls, seen
    )


def _tell_load(meter: LoadMeter | None, tell: Callable[[InCall | Load], None] | None, asked: AskLoad) -> None:
    if meter is not None and tell is not None:
        tell(meter.told(with_keys=asked.with_keys))


def _serve(
    served: Served, transport: ZmqTransport, teller: EventTeller | None, tell_load: Callable[[AskLoad], None]
) -> None:
    waits_for_progress = False
    depth = LINEAGE.depth
    while not served.has_left:
        busy = served.step()
        if LINEAGE.depth != depth:
            end_copy()
        while transport.control:
            busy = True
            parcel = transport.control.popleft()
            order = order_in(parcel)
            if isinstance(order, AskLoad):
                tell_load(order)
            elif not isinstance(order, TellEvents):
                served.follow(order, parcel.bodies)
            elif teller is not None:
                teller.answer(order.number)
        # Also while it is busy: what others have done may be judged only after what caused it.
        due_seconds = inf if teller is None else teller.rest()
        # Rows leave before an operator acts, which may take long; but progress goes with them if it is next.
        waits_for_progress = served.worker.tells_next and not waits_for_progress
        if busy and not waits_for_progress:
            transport.flush()
        if not busy:
            # Spinning before sleeping was tried, 20 to 100 us: it takes the core from the I/O threads and
            # was slower for epochs, and no faster for rounds, on two cores.
            is_holding = served.worker.is_holding
            seconds = min(due_seconds, _HOLDS_SECONDS if is_holding else _SLEEP_SECONDS)
            if not transport.wait(seconds) and is_holding:
                served.worker.hold_no_longer()
