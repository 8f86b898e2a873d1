"""After a lost executor, the tasks in the slots that are left become the workers at once.

The driver's loop runs with a scheduler that answers from a list, and tasks that register at once, so that
each story is about what Spark says: an executor that is still counted, one that starts meanwhile, a slot that
another job holds, a Python that is about to start.
"""

from collections.abc import Iterator, Sequence
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from pointstamp.mesh.admission import Address
from pointstamp.query.crew import CrewError
from pointstamp.query.rendezvous import Listening, Placement, Register, Rendezvous, Sent
from pointstamp.spark import worker_formation
from pointstamp.spark.worker_formation import Waiting

SETTLE_SECONDS = 60.0
GIVE_UP_SECONDS = 1.5


class Server:
    """Tasks that have registered, and answer at once."""

    def __init__(self, machine: Rendezvous, registered: int) -> None:
        self.machine = machine
        for number in range(registered):
            self.answer(machine.register(number, Register(number, 0, "host", {}), monotonic()))

    def poll(self, seconds: float) -> None:
        sleep(seconds)
        self.answer(self.machine.tick(monotonic()))

    def answer(self, sent: list[Sent]) -> None:
        for connection, answer in sent:
            if isinstance(answer, Placement):
                self.answer(self.machine.bound(connection, Listening(answer.round, Address("tcp://h:1"))))


def last_of(answers: Sequence[int]) -> Iterator[int]:
    """The answers in turn, the last one for ever."""
    yield from answers
    while True:
        yield answers[-1]


def formed(
    monkeypatch: pytest.MonkeyPatch,
    *,
    slots: Sequence[int],
    registered: int,
    active: int,
    after_loss: bool = True,
) -> int:
    """With how many of 4 workers the crew forms, before anybody gives up."""
    begun = monotonic()
    looks = last_of(slots)
    monkeypatch.setattr(worker_formation, "slots_now", lambda _: next(looks))
    machine = Rendezvous(4, 1, {}, now_seconds=begun, settle_seconds=SETTLE_SECONDS)
    waiting = Waiting(
        is_wanted=lambda: monotonic() < begun + GIVE_UP_SECONDS,
        settle_seconds=SETTLE_SECONDS,
        after_loss=after_loss,
    )
    job: Any = SimpleNamespace(check=lambda: None, active_tasks=lambda: active)
    wanted: Any = SimpleNamespace(needs_all=False)
    server: Any = Server(machine, registered)
    addresses = worker_formation._form(cast("SparkSession", None), wanted, machine, server, job, waiting)
    return len(addresses)


@pytest.mark.parametrize(
    ("slots", "registered"), [([2], 2), ([4, 4, 2], 2), ([2, 2, 4], 2), ([1], 1)], ids=str
)
def test_the_slots_that_are_left_are_enough(
    slots: list[int], registered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert formed(monkeypatch, slots=slots, registered=registered, active=registered) == registered


@pytest.mark.parametrize(
    ("slots", "registered", "active", "after_loss"),
    [
        pytest.param([2], 1, 1, True, id="another job holds a slot"),
        pytest.param([2], 2, 3, True, id="a Python is about to start"),
        pytest.param([0], 2, 2, True, id="no slot was left"),
        pytest.param([4, 0], 2, 2, True, id="none was left, as Spark finds later"),
        pytest.param([2], 2, 2, False, id="nothing was lost"),
    ],
)
def test_more_tasks_are_waited_for_where_they_can_come_soon(
    slots: list[int], registered: int, active: int, after_loss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CrewError, match="it was stopped while Spark started its workers"):
        formed(monkeypatch, slots=slots, registered=registered, active=active, after_loss=after_loss)


def test_all_that_were_wished_for_are_enough_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formed(monkeypatch, slots=[0], registered=4, active=4, after_loss=False) == 4
