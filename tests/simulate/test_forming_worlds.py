"""Generations whose workers form from tasks that come late, leave, come twice and come back.

Families, and what only each can find:
- worlds with a simulated Spark, judged as all worlds with crashes are: that what is published does not depend
  on which tasks became workers, that a query comes to its end whatever happens while its workers form, and
  that every kind of story happens;
- worlds in which a driver that has lost a worker dismisses tasks that come late, while the next workers form
  in the slots that are left;
- broken variants of the rendezvous, and a rendezvous that takes tasks of other generations: each is found.
"""

import re
from typing import ClassVar

import pytest

from pointstamp.query.rendezvous import (
    Dismissed,
    Listening,
    Placement,
    Register,
    Rendezvous,
    Roster,
    Sent,
    SlotsLeft,
)
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.seeds import FindingKind, cases
from pointstamp.simulate.world import Ended
from support.broken_recovery import simulator_of, sound_flows
from support.forming_worlds import FormingWorld
from support.loss_worlds import LossWorld

STORIES = {
    "fewer workers",
    "all workers",
    "another attempt",
    "closed while it formed",
    "an executor arrives",
    "an executor is lost",
    "a connection is lost",
    "speculation",
}
LOSSES = {
    "a late task is dismissed",
    "a late task finds nobody",
    "beside a generation that leaves",
    "in the slots that are left",
}
SEEDS_MAX = 150


@pytest.mark.parametrize("name", ["delayed", "windows", "components"])
@pytest.mark.parametrize(("world", "stories"), [(FormingWorld, STORIES), (LossWorld, STORIES | LOSSES)])
def test_what_is_published_does_not_depend_on_which_tasks_became_workers(
    world: type[FormingWorld], stories: set[str], name: str
) -> None:
    seen: set[str] = set()
    sizes: set[int] = set()

    class Noted(world):  # type: ignore[misc, valid-type]
        def _has_ended(self) -> bool:
            seen.update(self.seen)
            return bool(super()._has_ended())

    simulator = simulator_of(sound_flows()[name]())
    simulator.world = Noted
    for case in cases(range(24), 1, 4, (0, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert sizes == {1, 2, 3, 4}
    assert seen == stories


@pytest.mark.long
@pytest.mark.parametrize("name", ["delayed", "windows", "components", "reminders", "walked"])
@pytest.mark.parametrize("world", [FormingWorld, LossWorld])
def test_many_worlds_of_forming_workers_publish_what_a_run_without_failures_emits(
    world: type[FormingWorld], name: str
) -> None:
    simulator = simulator_of(sound_flows()[name]())
    simulator.world = world
    for case in cases(range(1_000), 1, 4, (0, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


# Broken variants.


class KeepsRoundOfTheLost(Rendezvous):
    """Does not seat the others again when a seated task is lost."""

    def disconnected(self, connection: int, now_seconds: float) -> list[Sent]:
        self._candidates.pop(connection, None)
        return []


class TakesCopies(Rendezvous):
    """Takes a second attempt for a partition of its own."""

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
        if answers or connection in self._candidates:
            return answers
        return [Sent(connection, Dismissed("a copy"))]


class NeedsAll(Rendezvous):
    """Never begins with fewer tasks than wished for."""

    def tick(self, now_seconds: float) -> list[Sent]:
        del now_seconds
        return []


class LetsTheReplacementIn(Rendezvous):
    """Gives a task that comes after the roster the number of the one that it replaces."""

    def register(self, connection: int, hello: Register, now_seconds: float) -> list[Sent]:
        if self.roster is not None:
            number = hello.partition % len(self.roster.addresses)
            seat = Placement(self._round, number, len(self.roster.addresses))
            roster = Roster(self._round, self.roster.addresses, self.roster.hosts)
            return [Sent(connection, seat), Sent(connection, roster)]
        return super().register(connection, hello, now_seconds)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (KeepsRoundOfTheLost, "have a roster of"),
        (TakesCopies, "because its copy has ended"),
        (BelievesOldRounds, "is told another address than its own"),
        (DismissesCopies, "because its copy has ended|nothing is left to do"),
        (NeedsAll, "nothing is left to do"),
        (LetsTheReplacementIn, "is told another address than its own"),
    ],
)
def test_a_broken_rendezvous_is_found_in_a_world(broken: type[Rendezvous], reason: str) -> None:
    class Broken(FormingWorld):
        rendezvous: ClassVar[type[Rendezvous]] = broken

    _check_found(Broken, reason)


@pytest.mark.parametrize("world", [FormingWorld, LossWorld])
def test_a_rendezvous_that_takes_tasks_of_older_generations_is_found(world: type[FormingWorld]) -> None:
    class WithoutSecrets(world):  # type: ignore[misc, valid-type]
        has_secrets: ClassVar[bool] = False

    _check_found(WithoutSecrets, "is a worker of job", "nothing is left to do|waits, though its tasks fill")


def test_a_rendezvous_that_lets_late_tasks_of_a_lost_generation_in_is_found() -> None:
    class Broken(LossWorld):
        rendezvous: ClassVar[type[Rendezvous]] = LetsTheReplacementIn

    _check_found(Broken, "is told another address than its own")


class CountsLostExecutors(SlotsLeft):
    """Goes by the slots that there were when the crew began to form."""

    def look(self, slots: int) -> None:
        del slots


def test_a_crew_that_waits_for_slots_that_are_lost_is_found() -> None:
    class Broken(LossWorld):
        slots_left: ClassVar[type[SlotsLeft]] = CountsLostExecutors

    _check_found(Broken, "waits, though its tasks fill the slots that are left")


def _check_found(world: type[FormingWorld], reason: str, consequence: str = "$^") -> None:
    simulator = simulator_of(sound_flows()["running"]())
    simulator.world = world
    for case in cases(range(SEEDS_MAX), 2, 4, (0, 4)):
        run = simulator.crash_run(case)
        if run.ended is not Ended.COMPLETE:
            if re.search(reason, run.reason):
                return
            assert re.search(consequence, run.reason)
    pytest.fail(f"{SEEDS_MAX} worlds, and it was not found")
