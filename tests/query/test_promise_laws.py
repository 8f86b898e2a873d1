"""What an input promises between two offers: for which units a promise holds, and when it takes effect.

The real ``Intake`` follows stories that a seed makes: units are found, promises are said, ticks take units,
drivers are replaced and find the same units again. Beside it stands the definition, computed from the whole
story each time: a unit must keep the greatest promise that was said before it was found, and a promise has
taken effect when all units that were found before it are taken. Each mutant breaks one rule of the intake or
of the promises, and the law finds it.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

from pointstamp.connectors.source import Part, Unit
from pointstamp.journal.ledger import Promises
from pointstamp.query.intake import Intake

Patch = pytest.MonkeyPatch
SEEDS: Final = range(150)
INPUTS: Final = ("a", "b")


class BrokenPromiseError(AssertionError):
    """The intake differs from the definition."""


class Story:
    """One input's units and promises in the order in which they were found and said."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.taken = 0
        self.said: list[tuple[int, int]] = []
        """Each promise, with the number of units that were found before it."""
        self.complete = 0

    def held_to(self, number: int) -> int:
        return max((epoch for epoch, found in self.said if found <= number), default=0)

    def complete_now(self) -> int:
        return max((epoch for epoch, found in self.said if found <= self.taken), default=0)


class Driver:
    """An intake that follows stories, and is compared with them after each step."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._stories = {name: Story() for name in INPUTS}
        self._limits = {name: self._chance.choice((None, 1, 3)) for name in INPUTS}
        self._open_from = 0
        self._promises = {name: Promises() for name in INPUTS}
        self._intake = Intake(self._limits, INPUTS, 0)

    def run(self) -> None:
        for _ in range(60):
            name = self._chance.choice(INPUTS)
            self._chance.choices(
                (self._find, self._say, self._take, self._replace), weights=(6, 3, 5, 1), k=1
            )[0](name)
            self._compare()

    def _find(self, name: str) -> None:
        story = self._stories[name]
        names = [f"{len(story.found) + number:04d}" for number in range(self._chance.choice((1, 1, 2, 4)))]
        story.found += names
        self._intake.offer(name, [_unit(each) for each in names])

    def _say(self, name: str) -> None:
        story = self._stories[name]
        epoch = max([0, *(epoch for epoch, _ in story.said)]) + self._chance.choice((0, 1, 5))
        self._promises[name].say(epoch, self._intake.waiting(name))  # as the journal has it
        self._intake.advance(name, epoch)
        story.said.append((epoch, len(story.found)))

    def _take(self, _: str) -> None:
        taken, held_to = self._intake.take()
        for name, units in taken.items():
            story, limit = self._stories[name], self._limits[name]
            if [each.name for each in units] != story.found[story.taken : story.taken + len(units)]:
                raise BrokenPromiseError(f"{name}: {units} are not the next ones")
            wanted = {story.held_to(story.taken + number) for number in range(len(units))}
            if units and {held_to[name]} != wanted:
                raise BrokenPromiseError(f"{name}: units that must keep {wanted} are held to {held_to[name]}")
            if (limit is not None and len(units) > limit) or (not units and story.taken < len(story.found)):
                raise BrokenPromiseError(f"{name}: {len(units)} were taken of those that wait")
            story.taken += len(units)
            self._promises[name].take(units)
        self._open_from = max(self._open_from, self._intake.complete_to(self._open_from))

    def _replace(self, _: str) -> None:
        """Another driver reads the journal, and finds all units that were not taken, and perhaps more."""
        self._intake = Intake(self._limits, INPUTS, 0, self._promises)
        self._promises = {
            name: Promises.of(each.entries(name), each.complete) for name, each in self._promises.items()
        }
        for name, story in self._stories.items():
            left = story.found[story.taken :]
            if self._chance.random() < 0.5:
                left.append(f"{len(story.found):04d}")
                story.found.append(left[-1])
            self._intake.offer(name, [_unit(each) for each in left])

    def _compare(self) -> None:
        for name, story in self._stories.items():
            if self._intake.complete(name) != story.complete_now():
                raise BrokenPromiseError(
                    f"{name} is complete before {self._intake.complete(name)}, not {story.complete_now()}"
                )
        least = min(story.complete_now() for story in self._stories.values())
        if self._intake.complete_to(self._open_from) != max(self._open_from, least):
            raise BrokenPromiseError(f"all are complete before {least}")


def _unit(name: str) -> Unit:
    return Unit(name, (Part(name, 1),))


def run_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        Driver(seed).run()


def test_a_promise_holds_for_the_units_that_are_found_after_it_and_waits_for_those_before() -> None:
    run_all(SEEDS)


@pytest.mark.long
def test_a_promise_holds_in_many_stories() -> None:
    run_all(range(20_000))


# Mutants.


def a_promise_waits_for_nothing(patch: Patch) -> None:
    say = Promises.say
    patch.setattr(Promises, "say", lambda self, epoch, waiting: say(self, epoch, ()))


def a_promise_binds_units_only_once_it_takes_effect(patch: Patch) -> None:
    patch.setattr(Promises, "held_to", lambda self, name: self.complete)


def a_promise_binds_the_units_that_it_waits_for(patch: Patch) -> None:
    patch.setattr(Promises, "held_to", lambda self, name: self.last)


def units_are_held_to_what_is_promised_when_they_are_taken(patch: Patch) -> None:
    take = Intake.take

    def late(self: Intake) -> tuple[dict[str, list[Unit]], dict[str, int]]:
        taken, held = take(self)
        return taken, {name: self._promises[name].last for name in held}

    patch.setattr(Intake, "take", late)


def a_tick_takes_units_of_several_promises(patch: Patch) -> None:
    offer = Intake.offer

    def first(self: Intake, name: str, units: Sequence[Unit]) -> None:
        offer(self, name, units)
        waiting = self._offered[name]
        for number, (unit, _) in enumerate(list(waiting)):
            waiting[number] = unit, waiting[0][1]

    patch.setattr(Intake, "offer", first)


def what_is_taken_is_not_taken_off_the_promises(patch: Patch) -> None:
    patch.setattr(Promises, "take", lambda self, units: None)


def only_the_first_promise_is_remembered(patch: Patch) -> None:
    def say(self: Promises, epoch: int, waiting: Iterable[str]) -> None:
        if not self._waiting:
            right(self, epoch, waiting)

    right = Promises.say
    patch.setattr(Promises, "say", say)


def a_new_driver_forgets_promises_that_have_not_taken_effect(patch: Patch) -> None:
    entries = Promises.entries
    patch.setattr(Promises, "entries", lambda self, name: entries(self, name)[: bool(self.complete)])


def a_new_driver_forgets_what_promises_wait_for(patch: Patch) -> None:
    of = Promises.of.__func__  # type: ignore[attr-defined]

    def alone(cls: Any, entries: Iterable[Any], complete: int = 0) -> Promises:  # noqa: ANN401
        made: Promises = of(cls, [], complete)
        for entry in entries:
            made.say(entry.epoch, [])
        return made

    patch.setattr(Promises, "of", classmethod(alone))


@pytest.mark.parametrize(
    "mutant",
    [
        a_promise_waits_for_nothing,
        a_promise_binds_units_only_once_it_takes_effect,
        a_promise_binds_the_units_that_it_waits_for,
        units_are_held_to_what_is_promised_when_they_are_taken,
        a_tick_takes_units_of_several_promises,
        what_is_taken_is_not_taken_off_the_promises,
        only_the_first_promise_is_remembered,
        a_new_driver_forgets_promises_that_have_not_taken_effect,
        a_new_driver_forgets_what_promises_wait_for,
    ],
)
def test_a_broken_promise_is_found(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=r"is complete before|are held to"):
        run_all(SEEDS)
