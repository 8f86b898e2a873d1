"""The loop that serves every worker that others speak to: step, follow, tell, sleep.

Families, and what only each can find:
- *in order*: that orders are followed after a step and before the loop sleeps, and when it ends;
- *events*: that they are told before what rests on them, before a failure, when asked, and by one thread;
- *ends*: that whatever happens the lookout ends and the worker is closed.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pointstamp.driver import liveness
from pointstamp.driver.event_reports import EventTeller, decode_events
from pointstamp.driver.messages import AskCounts, EventsTold, InCall, Leave, Order, TellEvents, encode
from pointstamp.driver.worker_loop import serve
from pointstamp.errors import SchemaError, TransportError
from pointstamp.mesh.mesh import Parcel
from pointstamp.mesh.wire import MessageKind
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.ports import OperatorIndex
from pointstamp.worker.events import SnapshotTaken

EVENT = SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 2)
WAIT_SECONDS_MAX = 30.0


class Post:
    """As much of a transport as the loop uses: what is sent to the worker arrives when it sleeps."""

    def __init__(self, done: list[str], *orders: Order) -> None:
        self.control: deque[Parcel] = deque()
        self._done = done
        self._orders = deque(orders)

    def gather(self, *, is_on: bool) -> None:
        pass

    def flush(self) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        self._done.append(f"sleep {seconds:g}" if seconds == 1 else "nap")
        if not self._orders:
            raise TransportError("the driving process is gone.")
        header = memoryview(encode(self._orders.popleft()))
        self.control.append(Parcel(WorkerIndex(1), MessageKind.CONTROL, header, (b"rows",)))
        return True


class Scripted:
    """A worker that steps as it is told, and leaves when it is told to."""

    def __init__(self, done: list[str], *steps: Callable[[], bool]) -> None:
        self.worker: Any = SimpleNamespace(instances={}, tells_next=False, is_holding=False)
        self.has_left = False
        self._done = done
        self._steps = deque(steps)

    def step(self) -> bool:
        self._done.append("step")
        return self._steps.popleft()() if self._steps else False

    def follow(self, order: Order, bodies: Sequence[Any] = ()) -> None:
        self._done.append(f"{type(order).__name__} {[bytes(each) for each in bodies]}")
        self.has_left = self.has_left or isinstance(order, Leave)

    def close(self) -> None:
        self._done.append("close")


def served(done: list[str], post: Post, *steps: Callable[[], bool], **named: Any) -> Scripted:  # noqa: ANN401
    return serve(lambda: Scripted(done, *steps), post, **named)  # type: ignore[arg-type]


# In order.


def test_it_steps_while_there_is_something_to_do_then_sleeps_and_follows_what_has_come() -> None:
    done: list[str] = []
    served(done, Post(done, AskCounts(), Leave()), lambda: True, lambda: False)
    assert done == [
        *("step", "step", "sleep 1"),
        *("step", "AskCounts [b'rows']"),
        *("step", "sleep 1"),
        *("step", "Leave [b'rows']", "close"),
    ]


def test_what_was_served_is_returned_when_it_has_left() -> None:
    done: list[str] = []
    assert served(done, Post(done, Leave())).has_left


# Events.


def test_it_tells_what_has_happened_when_it_is_asked_without_troubling_the_worker() -> None:
    done: list[str] = []
    told: list[EventsTold] = []
    teller = EventTeller(told.append)
    served(done, Post(done, TellEvents(7), Leave()), teller=teller)
    assert told == [EventsTold(teller._encode([]), 0, 7)]
    assert not any("TellEvents" in each for each in done)


def test_what_has_happened_is_told_also_while_there_is_something_to_do() -> None:
    done: list[str] = []
    told: list[EventsTold] = []
    teller = EventTeller(told.append)
    seen: list[int] = []

    def act() -> bool:
        teller.record(EVENT)
        return True

    def look() -> bool:
        seen.append(len(told))
        return False

    served(done, Post(done, Leave()), act, look, teller=teller)
    assert seen == [1]


def test_what_happened_before_a_failure_is_told() -> None:
    done: list[str] = []
    told: list[EventsTold] = []
    teller = EventTeller(told.append)
    teller.record(EVENT)
    teller.flush()

    def fail() -> bool:
        teller.record(EVENT)
        raise SchemaError("no such column")

    with pytest.raises(SchemaError, match="no such column"):
        served(done, Post(done), fail, teller=teller)
    assert [decode_events(each.events) for each in told] == [[EVENT], [EVENT]]


def test_a_worker_that_cannot_be_built_fails_with_its_own_error_and_its_events() -> None:
    told: list[EventsTold] = []
    teller = EventTeller(told.append)

    def start() -> Scripted:
        teller.record(EVENT)
        raise SchemaError("no such column")

    with pytest.raises(SchemaError, match="no such column"):
        serve(start, Post([]), teller=teller)  # type: ignore[arg-type]
    assert [each.count for each in told] == [1]


# It was so: the thread that tells of long calls told the worker's events, too, which only the worker's own
# thread may; what both took at once came twice or in the wrong order to the judge.
def test_who_looks_out_for_long_calls_tells_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(liveness, "_LOOK_SECONDS", 0.001)
    done: list[str] = []
    tellers: set[str] = set()
    heard = threading.Event()
    teller = EventTeller(lambda _: tellers.add(threading.current_thread().name))
    calls: list[InCall] = []

    def tell(call: InCall) -> None:
        calls.append(call)
        heard.set()

    def stay() -> bool:
        teller.record(EVENT)
        assert heard.wait(WAIT_SECONDS_MAX)
        return False

    inside = SimpleNamespace(name="rank", calls=1, calling="now", authority=SimpleNamespace(time=(3,)))

    def start() -> Scripted:
        member = Scripted(done, stay)
        member.worker = SimpleNamespace(instances={0: inside}, tells_next=False, is_holding=False)
        return member

    serve(start, Post(done, Leave()), tell_call=tell, teller=teller)  # type: ignore[arg-type]
    assert (calls[0].operator, calls[0].time) == ("rank", "(3,)")
    assert tellers == {threading.current_thread().name}


# Ends.


def test_whatever_ends_it_the_lookout_ends_and_the_worker_is_closed() -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    for step, kind in ((interrupt, KeyboardInterrupt), (lambda: False, TransportError)):
        done: list[str] = []
        with pytest.raises(kind):
            served(done, Post(done), step, tell_call=lambda _: None)
        assert done[-1] == "close"
        assert not [each for each in threading.enumerate() if each.name == "pointstamp-lookout"]


# Kept: progress that nobody waits for is told when nothing arrives for a moment.


class Quiet(Post):
    """A transport at which nothing arrives the first times that the worker sleeps."""

    def __init__(self, done: list[str], naps: int, *orders: Order) -> None:
        super().__init__(done, *orders)
        self._naps = naps

    def wait(self, seconds: float) -> bool:
        if self._naps:
            self._naps -= 1
            self._done.append("nap")
            return False
        return super().wait(seconds)


@pytest.mark.parametrize(("naps", "is_holding"), [(0, True), (2, True), (2, False)])
def test_a_worker_that_keeps_progress_is_let_tell_it_when_nothing_arrives(
    naps: int, is_holding: bool
) -> None:
    done: list[str] = []
    scripted = Scripted(done)
    scripted.worker.is_holding = is_holding

    def hold_no_longer() -> None:
        done.append("tell")
        scripted.worker.is_holding = False

    scripted.worker.hold_no_longer = hold_no_longer
    serve(lambda: scripted, Quiet(done, naps, Leave()))  # type: ignore[arg-type]
    first = ["step", "nap", "tell"] if naps and is_holding else ["step", "nap" if naps or is_holding else ""]
    assert done[: len(first)] == first
    assert done.count("tell") == (1 if naps and is_holding else 0)
