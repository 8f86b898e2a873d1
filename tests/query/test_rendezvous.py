"""The workers of a generation are formed from tasks that come late, leave, come twice or never come.

Families, and what only each can find:
- a rule-based machine drives the driver's side with any order of registrations, losses, second attempts and
  delays, and plays the tasks: that a roster is one and the same for all of its tasks, numbered without gaps,
  within its bounds, and that nobody waits for ever;
- broken variants, each of which the machine finds;
- single stories: what a task is told that is not needed, and of which versions.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pointstamp.mesh.admission import Address
from pointstamp.query.rendezvous import Dismissed, Listening, Placement, Register, Rendezvous, Roster, Sent

VERSIONS = {"Python": "3.11"}
SETTLE_SECONDS = 2.0


@dataclass
class FakeTask:
    """A task as the driver sees it: it answers a seat by listening, sooner or later."""

    connection: int
    partition: int
    seat: Placement | None = None
    owes: list[Listening] = field(default_factory=list)
    roster: Roster | None = None
    dismissed: bool = False
    is_copy: bool = False


class Forming(RuleBasedStateMachine):
    """Random stories of one rendezvous."""

    kind: ClassVar[type[Rendezvous]] = Rendezvous

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.wish, self.least = 0, 0
        self.rendezvous = self.kind(1, 1, VERSIONS, now_seconds=0.0)
        self.tasks: dict[int, FakeTask] = {}
        self.lost_after: set[int] = set()
        self.next = 0
        self.calm_seconds = 0.0

    @initialize(sizes=st.sampled_from([(2, 1), (2, 2), (3, 2)]))
    def begin(self, sizes: tuple[int, int]) -> None:
        self.wish, self.least = sizes
        self.rendezvous = self.kind(
            self.wish, self.least, VERSIONS, now_seconds=0.0, settle_seconds=SETTLE_SECONDS
        )

    def deliver(self, answers: list[Sent]) -> None:
        for connection, answer in answers:
            task = self.tasks[connection]  # an answer to a task that is gone is a mistake
            assert task.roster is None
            assert not task.dismissed
            match answer:
                case Placement():
                    assert task.seat is None or answer.round > task.seat.round
                    task.seat = answer
                    address = Address(f"tcp://{connection}:{answer.round}")
                    task.owes.append(Listening(answer.round, address))
                case Roster():
                    assert task.seat is not None
                    assert answer.round == task.seat.round
                    mine = answer.addresses[task.seat.number]
                    assert mine.endpoint == f"tcp://{connection}:{answer.round}"
                    assert len(answer.addresses) == task.seat.workers
                    task.roster = answer
                case Dismissed():
                    task.dismissed = True

    @rule(number=st.integers(0, 2))
    def register(self, number: int) -> None:
        partition = number % self.wish
        connection, self.next = self.next, self.next + 1
        alive = [each for each in self.tasks.values() if each.partition == partition and not each.dismissed]
        self.tasks[connection] = FakeTask(connection, partition, is_copy=bool(alive))
        self.calm_seconds = 0.0
        hello = Register(partition, len(alive), "host", VERSIONS)
        self.deliver(self.rendezvous.register(connection, hello, self.now))
        if alive and any(each.roster is not None for each in alive):
            assert not self.tasks[connection].dismissed  # Spark would kill the one that works

    @precondition(lambda self: any(each.owes for each in self.tasks.values()))
    @rule(data=st.data())
    def listen(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from([each for each in self.tasks.values() if each.owes]))
        self.deliver(self.rendezvous.bound(task.connection, task.owes.pop(0)))

    @precondition(lambda self: bool(self.tasks))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        task = self.tasks.pop(data.draw(st.sampled_from(sorted(self.tasks))))
        if task.roster is not None:
            self.lost_after.add(task.connection)
        self.calm_seconds = 0.0
        self.deliver(self.rendezvous.disconnected(task.connection, self.now))

    @rule(seconds=st.sampled_from([0.125, 1.0, SETTLE_SECONDS]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.calm_seconds += seconds
        self.deliver(self.rendezvous.tick(self.now))

    @invariant()
    def rosters_agree(self) -> None:
        rosters = [each.roster for each in self.tasks.values() if each.roster is not None]
        assert all(each == self.rendezvous.roster for each in rosters)
        if self.rendezvous.roster is not None:
            size = len(self.rendezvous.roster.addresses)
            assert self.least <= size <= self.wish
            assert len(rosters) + len(self.lost_after) == size
            partitions = [each.partition for each in self.tasks.values() if each.roster is not None]
            assert len(set(partitions)) == len(partitions)

    @invariant()
    def no_copy_outlives_its_original(self) -> None:
        """Once the workers are decided, whoever waits is a copy of one that works."""
        if self.rendezvous.roster is not None:
            working = {each.partition for each in self.tasks.values() if each.roster is not None}
            waiting = (each for each in self.tasks.values() if each.roster is None and not each.dismissed)
            assert all(each.partition in working for each in waiting)

    @invariant()
    def nobody_waits_who_could_work(self) -> None:
        """When all who were seated listen and time has passed, enough tasks are a roster."""
        alive = {each.partition for each in self.tasks.values() if not each.dismissed}
        is_quiet = not any(each.owes for each in self.tasks.values())
        enough = self.least if self.calm_seconds >= SETTLE_SECONDS else self.wish
        if is_quiet and len(alive) >= enough and not self.lost_after:
            assert self.rendezvous.roster is not None


Forming.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None
)
TestForming = Forming.TestCase


class KeepsRoundOfTheLost(Rendezvous):
    """Does not seat the others again when a seated task is lost."""

    def disconnected(self, connection: int, now_seconds: float) -> list[Sent]:
        self._candidates.pop(connection, None)
        return []


class TakesCopies(Rendezvous):
    """Takes a second attempt for a task of its own."""

    def register(self, connection: int, hello: Register, now_seconds: float) -> list[Sent]:
        other = Register(1000 + connection, hello.attempt, hello.host, hello.versions)
        return super().register(connection, other, now_seconds)


class BelievesOldRounds(Rendezvous):
    """Takes an address of an earlier round for one of this."""

    def bound(self, connection: int, message: Listening) -> list[Sent]:
        return super().bound(connection, Listening(self._round, message.address))


class DismissesCopies(Rendezvous):
    """Lets a second attempt end at once, so that Spark kills the first."""

    def register(self, connection: int, hello: Register, now_seconds: float) -> list[Sent]:
        answers = super().register(connection, hello, now_seconds)
        return (
            answers if answers or connection in self._candidates else [Sent(connection, Dismissed("a copy"))]
        )


class NeedsAll(Rendezvous):
    """Never begins with fewer tasks than wished for."""

    def tick(self, now_seconds: float) -> list[Sent]:
        del now_seconds
        return []


class ForgetsWaiting(Rendezvous):
    """Leaves a second attempt waiting when the first is lost."""

    def disconnected(self, connection: int, now_seconds: float) -> list[Sent]:
        self._copies.clear()
        return super().disconnected(connection, now_seconds)


class KeepsCopies(Rendezvous):
    """Leaves a second attempt waiting when its worker is lost, as long as the others work."""

    def disconnected(self, connection: int, now_seconds: float) -> list[Sent]:
        sent = super().disconnected(connection, now_seconds)
        return [] if self.roster is not None else sent


@pytest.mark.parametrize(
    "broken",
    [
        KeepsRoundOfTheLost,
        TakesCopies,
        BelievesOldRounds,
        DismissesCopies,
        NeedsAll,
        ForgetsWaiting,
        KeepsCopies,
    ],
)
def test_a_broken_rendezvous_is_found(broken: type[Rendezvous]) -> None:
    class Broken(Forming):
        kind = broken

    with pytest.raises((AssertionError, LookupError), match=r"."):
        run_state_machine_as_test(
            Broken,
            settings=settings(
                max_examples=1000,
                stateful_step_count=30,
                suppress_health_check=list(HealthCheck),
                deadline=None,
                database=None,
                print_blob=False,
                report_multiple_bugs=False,
                phases=(Phase.generate,),
            ),
        )


def test_a_task_with_another_version_is_told_so_and_the_rendezvous_knows_why() -> None:
    rendezvous = Rendezvous(2, 1, VERSIONS, now_seconds=0.0)
    ((_, answer),) = rendezvous.register(0, Register(0, 0, "far", {"Python": "3.12"}), 0.0)
    assert isinstance(answer, Dismissed)
    assert "the driver runs Python 3.11, and a worker on host 'far' runs 3.12" in answer.reason
    assert rendezvous.refusal == answer.reason


def test_what_is_waited_for_is_said() -> None:
    rendezvous = Rendezvous(4, 2, VERSIONS, now_seconds=0.0)
    assert rendezvous.needs() == "0 of 4 workers have started, at least 2 are needed"


def test_tasks_that_register_after_the_roster_are_counted() -> None:
    rendezvous = Rendezvous(2, 1, VERSIONS, now_seconds=0.0, settle_seconds=1.0)
    rendezvous.register(0, Register(0, 0, "host", VERSIONS), 0.0)
    ((_, seat),) = rendezvous.tick(1.0)
    assert seat == Placement(1, 0, 1)
    rendezvous.bound(0, Listening(1, Address("tcp://a")))
    ((_, answer),) = rendezvous.register(1, Register(1, 0, "host", VERSIONS), 1.5)
    assert isinstance(answer, Dismissed)
    assert rendezvous.late == 1


def formed(partitions: int) -> Rendezvous:
    """A rendezvous whose workers are complete; connection i is partition i."""
    rendezvous = Rendezvous(partitions, partitions, VERSIONS, now_seconds=0.0)
    for number in range(partitions):
        rendezvous.register(number, Register(number, 0, "host", VERSIONS), 0.0)
    for number in range(partitions):
        rendezvous.bound(number, Listening(1, Address(f"tcp://{number}")))
    assert rendezvous.roster is not None
    return rendezvous


def test_an_executor_that_registers_its_task_twice_gets_one_number() -> None:
    rendezvous = Rendezvous(2, 2, VERSIONS, now_seconds=0.0)
    hello = Register(0, 0, "host", VERSIONS)
    assert rendezvous.register(0, hello, 0.0) == []
    assert rendezvous.register(1, hello, 0.0) == []
    assert rendezvous.registered == 1
    answers = rendezvous.register(2, Register(1, 0, "host", VERSIONS), 0.0)
    assert [(each.connection, each.answer) for each in answers] == [
        (0, Placement(1, 0, 2)),
        (2, Placement(1, 1, 2)),
    ]
    # The second connection takes the place of the first only when that is gone.
    again = rendezvous.disconnected(0, 0.0)
    assert [(each.connection, each.answer) for each in again] == [
        (1, Placement(2, 0, 2)),
        (2, Placement(2, 1, 2)),
    ]
    assert rendezvous.bound(0, Listening(1, Address("tcp://gone"))) == []


def test_a_task_that_comes_back_after_its_replacement_is_no_worker() -> None:
    rendezvous = Rendezvous(1, 1, VERSIONS, now_seconds=0.0)
    rendezvous.register(0, Register(0, 0, "host", VERSIONS), 0.0)
    rendezvous.disconnected(0, 0.0)  # its connection is lost, and the task lives
    rendezvous.register(1, Register(0, 1, "other", VERSIONS), 0.0)
    rendezvous.bound(1, Listening(2, Address("tcp://replacement")))
    assert rendezvous.roster is not None
    assert rendezvous.bound(0, Listening(1, Address("tcp://first"))) == []
    # It waits as a copy does, because its end would make Spark kill the replacement.
    assert rendezvous.register(2, Register(0, 0, "host", VERSIONS), 0.0) == []
    assert rendezvous.roster.addresses == [Address("tcp://replacement")]


def test_a_retried_task_of_a_lost_worker_is_dismissed() -> None:
    rendezvous = formed(2)
    assert rendezvous.disconnected(1, 1.0) == []
    ((connection, answer),) = rendezvous.register(7, Register(1, 1, "host", VERSIONS), 1.0)
    assert connection == 7
    assert isinstance(answer, Dismissed)
    assert rendezvous.roster is not None
    assert len(rendezvous.roster.addresses) == 2
