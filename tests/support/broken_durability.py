"""Storages, savepoints and epoch columns that are broken on purpose: each function is one switch.

The recoveries of ``support.broken_recovery`` break the conditions of failure transparency; these break what
those conditions stand on: that what is acknowledged is durable and what is not is whole or absent, that what
a user was answered holds, and that a savepoint is kept with all that it needs. Some are mistakes that were
made: the sentence above them says so. ``MUTANTS`` says which flow shows each and which judge must object.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pointstamp.journal.history import SnapshotChain
from pointstamp.journal.ledger import Ledger, Promises
from pointstamp.query import recovery
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.intake import Intake
from pointstamp.query.mission import QuerySpec
from pointstamp.query.recovery import Beginning
from pointstamp.simulate.crash import world
from pointstamp.simulate.crash.durability import SimulatedSink, SimulatedStorage
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.crash.setting import Features
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.storage.port import Content
from support.broken_recovery import Mutant

Patch = pytest.MonkeyPatch

# What is acknowledged is durable, and what is not is whole or absent.


def objects_are_written_in_place(patch: Patch) -> None:
    patch.setattr(SimulatedStorage, "writes_in_place", True)


def nothing_goes_to_the_disk(patch: Patch) -> None:
    patch.setattr(SimulatedStorage, "is_synced", False)


def a_name_that_is_taken_is_written_over(patch: Patch) -> None:
    def create(self: SimulatedStorage, name: str, content: Content) -> None:
        self.write(name, content)

    patch.setattr(SimulatedStorage, "create", create)


def parts_are_believed_unseen(patch: Patch) -> None:
    def nothing_is_wrong(_: QuerySpec, __: str) -> None:
        return

    disks_are_damaged(patch)
    patch.setattr(recovery, "_damage", nothing_is_wrong)


# It was so: a commit whose publisher had died before it was on the disk was seen, and the next epoch was
# committed; then the power failed, and the query was refused for ever: its output had lost a commit.
def a_commit_that_is_seen_is_taken_to_stay(patch: Patch) -> None:
    def published_through(self: SimulatedSink) -> int | None:
        return self.commits[-1].epochs_through if self.commits else None

    publications_are_lost(patch)
    patch.setattr(SimulatedSink, "published_through", published_through)


class LostPublications(CrashWorld):
    """A driver dies when its commit is seen and not on the disk; so does the next, and the power fails."""

    deaths_left = 2

    def _before_operation(self, what: str) -> None:
        super()._before_operation(what)
        is_first = what.endswith(" 0") and self.deaths_left == 2
        if what.startswith("publish") and self.deaths_left and not is_first:
            self.deaths_left -= 1
            self.durability.dies_after, self.durability.dies_late = 0, True
            self.durability.draw = lambda options: options - 1

    def _take_over(self) -> None:
        is_dark = self.deaths_left == 0 and self.powers == 0
        if is_dark:
            world.power_fails(self)  # which takes all that it can
        self.durability.draw = self.further.choose
        if not is_dark:
            super()._take_over()


def publications_are_lost(patch: Patch) -> None:
    """In all worlds."""
    _in_worlds_with(patch, Features())
    patch.setattr(CrashSimulator, "world", LostPublications)


# Epoch columns.


def where_epochs_are_open_is_forgotten(patch: Patch) -> None:
    begin = Ledger.__init__

    def begin_at_zero(self: Ledger, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as it takes them
        begin(self, *given, **named)
        self.open_from = 0

    patch.setattr(Ledger, "__init__", begin_at_zero)


# It was so: what was said was in the memory of a driver alone, until some tick had it.
def what_was_said_is_not_written_down(patch: Patch) -> None:
    def say(self: Ledger, name: str, epoch: int, waiting: Iterable[str]) -> None:
        """Nothing is recorded."""

    patch.setattr(Ledger, "say", say)


# It was so: units that were there when an input was said to be complete came later, and were refused.
def what_is_said_overtakes_what_is_there(patch: Patch) -> None:
    def believe(self: Promises) -> None:
        self.complete = self.last
        self._waiting.clear()

    patch.setattr(Promises, "_believe", believe)


# Nobody would know any more which units were there when it was said.
def what_waited_when_it_was_said_is_not_written_down(patch: Patch) -> None:
    say = Ledger.say

    def say_less(self: Ledger, name: str, epoch: int, waiting: Iterable[str]) -> None:
        say(self, name, epoch, ())

    patch.setattr(Ledger, "say", say_less)


# It was so: an input that had ended was not asked any more, though units of it were still to be taken.
def an_input_that_has_ended_is_complete(patch: Patch) -> None:
    def complete_to(self: Intake, open_from: int) -> int:
        still_open = (name for name in self._promises if name not in self._ended)
        return max(open_from, min((self._promises[name].complete for name in still_open), default=open_from))

    _in_worlds_with(patch, Features(has_columns=True))
    patch.setattr(Intake, "complete_to", complete_to)


# Savepoints.


def what_a_savepoint_needs_is_removed(patch: Patch) -> None:
    def names_needed(self: Ledger) -> set[str]:
        return {part.name for commit in self.commits for part in commit.parts}

    _in_worlds_with(patch, Features(savepoints_one_in=20, chains_kept=1))
    patch.setattr(Ledger, "names_needed", names_needed)


def a_summary_forgets_savepoints(patch: Patch) -> None:
    summarize = Ledger.summarize

    def forget(self: Ledger) -> Any:  # noqa: ANN401 - what it returns
        self.savepoints = []
        return summarize(self)

    patch.setattr(Ledger, "summarize", forget)


def _kept_with(patch: Patch, **other: Any) -> None:  # noqa: ANN401 - fields of a savepoint
    keep = Ledger._keep_last

    def keep_less(self: Ledger) -> None:
        keep(self)
        changes = {name: change(self) for name, change in other.items()}
        self.savepoints[-1] = msgspec.structs.replace(self.savepoints[-1], **changes)

    patch.setattr(Ledger, "_keep_last", keep_less)


def a_savepoint_is_kept_without_its_ticks(patch: Patch) -> None:
    _kept_with(patch, ticks=lambda _: [])


def a_savepoint_begins_where_its_inputs_began(patch: Patch) -> None:
    _kept_with(patch, positions=lambda ledger: dict.fromkeys(ledger.positions))


# It was so: where the newest part was damaged, an older one was resumed from, without the ticks after it.
def a_savepoint_has_the_ticks_of_its_newest_part_only(patch: Patch) -> None:
    _in_worlds_with(patch, Features(savepoints_one_in=20))
    patch.setattr(world, "KINDS", (world.snapshot_is_damaged,))
    _kept_with(patch, ticks=lambda ledger: ledger.ticks_after(ledger.chain()))


# It was so: what was known to be damaged was kept under a name, and whoever had asked for it was answered.
def a_damaged_snapshot_gets_a_name(patch: Patch) -> None:
    save_soon = Coordinator.save_soon

    def believe(self: Coordinator, savepoint: str | None = None) -> int:
        self._is_last_whole = bool(self.ledger.commits)
        return save_soon(self, savepoint)

    disks_are_damaged(patch)
    patch.setattr(Coordinator, "save_soon", believe)


# It was so: the only snapshot that was whole was removed as too old, while it was resumed from.
def a_snapshot_in_use_is_too_old(patch: Patch) -> None:
    def forget(self: Ledger, chain: SnapshotChain) -> None:
        """Nothing is noted."""

    disks_are_damaged(patch)
    patch.setattr(Ledger, "go_on_from", forget)


def _in_worlds_with(patch: Patch, features: Features) -> None:
    """All worlds have these, so that few are needed."""
    patch.setattr(Features, "of", lambda _: features)


class Pressed(CrashWorld):
    """A world that keeps as little as it may: a generation that had to go back is asked for a savepoint.

    And it writes summaries all the time, which no other does: with them goes what is too old.
    """

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        self.spec = replace(self.spec, snapshots=replace(self.spec.snapshots, chain_max=1, keep=1))

    def _live(self, begun: Beginning) -> None:
        last = begun.ledger.committed
        went_back = begun.chain is not None and last is not None and begun.chain.epoch < last.epoch
        self.makeup = replace(self.makeup, summaries_one_in=1 if went_back else 0)
        super()._live(begun)
        if went_back:
            self.user.take_savepoint()


def disks_are_damaged(patch: Patch) -> None:
    """In all worlds, which are pressed, too."""
    patch.setattr(world, "KINDS", (world.snapshot_is_damaged,))
    patch.setattr(CrashSimulator, "world", Pressed)


# It was so: of two names for one snapshot the first was lost, and whoever asked for it was answered.
def a_snapshot_has_one_name(patch: Patch) -> None:
    saved = Coordinator.saved

    def name_once(self: Coordinator, worker: int, report: Any) -> Any:  # noqa: ANN401 - as it takes them
        for _, _, names in self._targets:
            del names[:-1]
        return saved(self, worker, report)

    patch.setattr(Coordinator, "saved", name_once)


# It was so: the first snapshot was under way, and what was asked for then was the next one.
def the_first_snapshot_gets_no_name(patch: Patch) -> None:
    save_soon = Coordinator.save_soon

    def save_later(self: Coordinator, savepoint: str | None = None) -> int:
        if self.ledger.commits or savepoint is None:
            return save_soon(self, savepoint)
        self._is_asked_to_save = True
        self._savepoints.append(savepoint)
        return self.opened

    patch.setattr(Coordinator, "save_soon", save_later)


MUTANTS = (
    Mutant(objects_are_written_in_place, "running", "failed"),
    Mutant(nothing_goes_to_the_disk, "running", "failed"),
    Mutant(a_name_that_is_taken_is_written_over, "running", "failed"),
    Mutant(parts_are_believed_unseen, "running", "failed"),
    Mutant(a_commit_that_is_seen_is_taken_to_stay, "running", "failed"),
    Mutant(where_epochs_are_open_is_forgotten, "running", "failed"),
    Mutant(what_was_said_is_not_written_down, "running", "failed"),
    Mutant(what_is_said_overtakes_what_is_there, "running", "failed"),
    Mutant(what_waited_when_it_was_said_is_not_written_down, "running", "failed"),
    Mutant(an_input_that_has_ended_is_complete, "joined", "failed"),
    Mutant(what_a_savepoint_needs_is_removed, "running", "failed"),
    Mutant(a_summary_forgets_savepoints, "running", "failed"),
    Mutant(a_savepoint_is_kept_without_its_ticks, "running", "published"),
    Mutant(a_savepoint_begins_where_its_inputs_began, "running", "failed"),
    Mutant(a_savepoint_has_the_ticks_of_its_newest_part_only, "delayed", "published"),
    Mutant(a_damaged_snapshot_gets_a_name, "delayed", "failed"),
    Mutant(a_snapshot_in_use_is_too_old, "running", "failed"),
    Mutant(a_snapshot_has_one_name, "running", "failed"),
    Mutant(the_first_snapshot_gets_no_name, "running", "failed"),
)
