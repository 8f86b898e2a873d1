"""The ledger: the inputs and commits of a query, rebuilt from its journal.

A tick says which units of which source were taken. A commit says that every worker has saved an epoch: where
the parts of the snapshot are, and which staged output is published with it. Everything that a new driver
needs to continue follows from these, in order: where each source stands, which ticks must be read again, and
which snapshot they come after.

A snapshot is a chain of commits: a complete one, and those after it that hold what changed. The last chains
are kept, and every savepoint; a summary replaces entries that no longer matter, and names the files that are
needed, so that all others can be removed.

Ticks may be gathered: they are stored with the next commit, as one entry. That is sound because nothing of a
tick is seen before a commit, and every tick before a commit is stored with it or earlier. If the driver dies
meanwhile, the tick never was: the source offers its units again, and members that read it commit nothing. Two
ticks are stored at once: the final one, and the first of an input, since only the journal says where
"latest" was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import Position, Source, Unit, complete_source
from pointstamp.errors import InternalError, RecoveryError, SourceError
from pointstamp.journal.entries import Generation, GenerationStarted
from pointstamp.journal.history import (
    Committed,
    Dropped,
    Entry,
    FlowShape,
    JournalSummary,
    KeptSnapshot,
    OutputBegun,
    OutputPublished,
    PartSaved,
    Renewed,
    Said,
    Savepoint,
    SnapshotChain,
    StoredAsOne,
    Ticked,
    each_of,
)
from pointstamp.journal.journal import Journal

SUMMARY_ENTRIES_MAX: Final = 256
"""A summary replaces the entries when there are more than this."""
SUMMARY_BYTES_MAX: Final = 8 * 1024 * 1024
"""A summary replaces the entries when commits hold more output than this."""
TICKS_GATHERED_MAX: Final = 64
"""So many ticks are stored together at most."""


class Ledger:
    """The state of a query as its journal has it; changed by the driver that holds the generation."""

    def __init__(
        self,
        journal: Journal[Entry],
        sources: Mapping[str, Source],
        *,
        chains_kept: int = 2,
        ticks_gathered_max: int = 1,
    ) -> None:
        self._journal = journal
        self._sources = sources
        self._chains_kept = chains_kept
        self._ticks_gathered_max = ticks_gathered_max
        self._gathered: list[Ticked] = []
        self.shape: FlowShape | None = None
        self.positions: dict[str, Position] = dict.fromkeys(sources)
        self.last_tick = -1
        self.open_from = 0
        self.is_final = False
        self.ticks: list[Ticked] = []
        self.commits: list[Committed] = []
        self.published = -1
        """The last epoch whose output is known to have been published."""
        self.is_output_begun = False
        """Whether the output has had a mark of the query since before the first commit."""
        self.savepoints: list[Savepoint] = []
        self.promises: dict[str, Promises] = {}
        self._gone_on_from: SnapshotChain | None = None
        self._changes_to: FlowShape | None = None
        self._entries = 0
        self._bytes_held = 0
        for stored in journal.entries():
            for entry in each_of(stored):
                self._apply(entry)

    # Reading.

    @property
    def generation(self) -> Generation:
        """The generation that this driver has started."""
        assert self._journal.generation is not None
        return self._journal.generation

    @property
    def committed(self) -> Committed | None:
        """The last commit."""
        return self.commits[-1] if self.commits else None

    @property
    def next_commit(self) -> int:
        """The number of the next commit."""
        return self.commits[-1].number + 1 if self.commits else 0

    def chain(self) -> SnapshotChain | None:
        """The last snapshot; None where there is none."""
        return self._chain_at(len(self.commits) - 1) if self.commits else None

    def chains(self) -> list[SnapshotChain]:
        """Every snapshot that is kept, the newest first."""
        return [self._chain_at(number) for number in reversed(range(len(self.commits)))]

    def ticks_after(self, chain: SnapshotChain | None) -> list[Ticked]:
        """The ticks to read again after a snapshot, or all."""
        settled = -1 if chain is None else chain.commits[-1].settled
        return [tick for tick in self.ticks if tick.number > settled]

    def ticks_stored(self) -> list[Ticked]:
        """The ticks that a new driver would find."""
        return self.ticks[: len(self.ticks) - len(self._gathered)]

    def go_on_from(self, chain: SnapshotChain) -> None:
        """Take note that this snapshot is in use, and that all later ones are damaged."""
        self._gone_on_from = chain

    def parts_needed(self) -> list[PartSaved]:
        """The parts of snapshots that are still needed, each once, by name."""
        kept = [*self.commits, *(commit for savepoint in self.savepoints for commit in savepoint.commits)]
        return sorted({part for commit in kept for part in commit.parts}, key=lambda part: part.name)

    def names_needed(self) -> set[str]:
        """The files of snapshots that are still needed."""
        return {part.name for part in self.parts_needed() if not part.content}

    def staged(self) -> list[Staged]:
        """The output of commits that are kept, which may not have been published yet."""
        return [staged for commit in self.commits for staged in commit.staged]

    def check_not_fenced(self) -> None:
        """FencedError if a newer driver has taken the journal over."""
        self._journal.check_not_fenced()

    # Writing.

    def begin(self, shape: FlowShape) -> None:
        """Record the shape of the flow at the beginning."""
        self._append(shape)

    def change_to(self, shape: FlowShape) -> None:
        """Record another shape of the flow with the next commit; until then the stored one counts.

        So a change that fails before anything of it is committed leaves a checkpoint of the old flow.
        """
        self._changes_to = shape if shape != self.shape else None

    def adopt(self, shape: FlowShape, savepoint: Savepoint) -> None:
        """Begin a journal with the savepoint of another query, whose commits are not this query's own."""
        before = len(savepoint.commits)
        self._append(
            JournalSummary(
                shape,
                savepoint.positions,
                savepoint.last_tick,
                savepoint.open_from,
                False,
                savepoint.ticks,
                [
                    msgspec.structs.replace(commit, number=place - before, savepoint=None)
                    for place, commit in enumerate(savepoint.commits)
                ],
                [],
            )
        )

    def tick(
        self,
        units: Mapping[str, Sequence[Unit]],
        complete_to: int,
        *,
        final: bool,
        promised: Mapping[str, int] | None = None,
        silent: Iterable[str] = (),
    ) -> Ticked:
        """Record the next tick; it is durable when this returns, or before the next commit is."""
        taken = {name: list(each) for name, each in units.items() if each}
        held = {n: epoch for n, epoch in (promised or {}).items() if n in taken and epoch > self.open_from}
        tick = Ticked(self.last_tick + 1, taken, self.open_from, complete_to, final, held, sorted(silent))
        is_first = any(self.positions.get(name) is None for name in taken)
        gathered = [*self._gathered, tick]
        if final or is_first or len(gathered) >= self._ticks_gathered_max:
            self._store(tick if len(gathered) == 1 else StoredAsOne(gathered))
        else:
            self._gathered = gathered
        self._apply(tick)
        return tick

    def renew(self, tick: Ticked) -> Ticked | None:
        """A tick that must be read again, as its sources have it now; None while a unit is being written.

        A unit that has changed is recorded again. That is sound because nothing of the tick is committed,
        which the order of the journal proves: no older driver can commit after this, and this driver has not
        given the tick to any member. If something of the unit is committed, its other rows must not change.
        """
        units: dict[str, list[Unit]] = {}
        for name, each in tick.units.items():
            renewed = [self._renewed(name, unit) for unit in each]
            if None in renewed:
                return None
            units[name] = [unit for unit in renewed if unit is not None]
        if units == tick.units:
            return tick
        if self.committed is not None and self.committed.epoch >= tick.open_from:
            raise self._changed(tick, units)
        self._append(Renewed(tick.number, units))
        return next(each for each in self.ticks if each.number == tick.number)

    def _renewed(self, name: str, unit: Unit) -> Unit | None:
        return complete_source(self._sources[name]).renewed(unit)

    def _changed(self, tick: Ticked, units: Mapping[str, Sequence[Unit]]) -> SourceError:
        changed = [
            (name, part.locator)
            for name in units
            for unit, now in zip(tick.units[name], units[name], strict=True)
            for part, part_now in zip(unit.parts, now.parts, strict=True)
            if part != part_now
        ]
        name, locator = changed[0]
        return SourceError(
            f"input '{name}': '{locator}' was changed after a part of its rows was committed, and the other "
            "rows must be read again: what is published was computed from the old content. Restore it as it "
            "was, or begin with a new checkpoint and a new output."
        )

    def commit(
        self,
        epoch: int,
        parts: Iterable[PartSaved],
        staged: Iterable[Staged],
        *,
        is_whole: bool,
        settled: int,
        savepoint: str | None = None,
        kept: Mapping[str, tuple[int, int]] | None = None,
    ) -> Committed:
        """Record the next commit; with it, everything in it is part of the query's history."""
        if self.committed is not None and settled < self.committed.settled:
            raise InternalError(
                f"commit {self.next_commit} says that ticks after {settled} must be read again, but commit "
                f"{self.committed.number} has settled all up to {self.committed.settled}."
            )
        commit = Committed(
            self.next_commit,
            epoch,
            is_whole,
            list(parts),
            list(staged),
            settled,
            savepoint,
            dict(kept or {}),
            self._changes_to,
        )
        self._append(commit)
        return commit

    def note_begun(self) -> None:
        """Record that the output is marked as this query's; before the first commit, and once."""
        if not self.is_output_begun:
            self._append(OutputBegun())

    def note_published(self, epoch: int) -> None:
        """Record that the output up to an epoch is published, unless the journal implies it."""
        if epoch > self.published:
            self._append(OutputPublished(epoch))

    def keep(self, savepoint: str) -> None:
        """Keep the last snapshot under a name; there must be one."""
        assert self.commits, "there is nothing to keep"
        self._append(KeptSnapshot(savepoint))

    def drop(self, savepoint: str) -> None:
        """Drop a savepoint; its files are removed with everything else that is no longer needed."""
        self._append(Dropped(savepoint))

    def say(self, name: str, epoch: int, waiting: Iterable[str]) -> None:
        """Record that the units that wait complete an input before an epoch, unless that is known."""
        waiting = list(waiting)
        if not self.promises.get(name, Promises()).is_known(epoch, waiting):
            self._append(Said(name, epoch, waiting))

    def summarize_if_long(self) -> list[Ticked] | None:
        """Replace the entries by a summary if there are many; return the ticks that are no longer needed."""
        is_long = self._entries >= SUMMARY_ENTRIES_MAX or self._bytes_held > SUMMARY_BYTES_MAX
        if not is_long or self.shape is None:
            return None
        return self.summarize()

    def summarize(self) -> list[Ticked]:
        """Replace the entries by a summary; return the ticks that are no longer needed."""
        assert self.shape is not None
        self._forget_old_chains()
        settled = self.commits[0].settled if self.commits else -1
        gone = [tick for tick in self.ticks if tick.number <= settled]
        self.ticks = [tick for tick in self.ticks if tick.number > settled]
        # Only the newest output may still have to be published, and only what is kept now is of interest.
        commits = [
            commit if commit is self.commits[-1] else msgspec.structs.replace(commit, staged=[], kept={})
            for commit in self.commits
        ]
        summary = JournalSummary(
            self.shape,
            self.positions,
            self.last_tick,
            self.open_from,
            self.is_final,
            self.ticks,
            commits,
            self.savepoints,
            [said for name, each in self.promises.items() for said in each.entries(name)],
            self.published,
            self.is_output_begun,
        )
        self._journal.summarize(summary)
        self._gathered = []
        self._entries = self._bytes_held = 0
        return gone

    # Inside.

    def _append(self, entry: Entry) -> None:
        if self._gathered and not isinstance(entry, Ticked | JournalSummary | StoredAsOne):
            self._store(StoredAsOne(self._gathered, entry))
        else:
            self._store(entry)
        self._apply(entry)

    def _store(self, entry: Entry) -> None:
        """Append an entry that holds the ticks that were gathered."""
        self._journal.append(entry)
        self._gathered = []

    def _apply(self, entry: Entry | GenerationStarted) -> None:
        self._entries += 1
        match entry:
            case GenerationStarted() | StoredAsOne():
                pass  # what was gathered is applied one by one
            case FlowShape():
                self.shape = entry
            case Ticked():
                for name, units in entry.units.items():
                    if name not in self._sources:
                        raise RecoveryError(
                            f"the journal has rows of an input '{name}', which this flow does not have. "
                            "Resume with the flow that wrote it, or start with a new checkpoint."
                        )
                    for unit in units:
                        self.positions[name] = self._sources[name].after(self.positions.get(name), unit)
                    if name in self.promises or any(unit.complete_to is not None for unit in units):
                        self.promises.setdefault(name, Promises()).take(units)
                self.last_tick = entry.number
                self.open_from = entry.complete_to
                self.is_final = entry.final
                self.ticks.append(entry)
            case Renewed():
                self.ticks = [
                    msgspec.structs.replace(tick, units=entry.units) if tick.number == entry.number else tick
                    for tick in self.ticks
                ]
            case Committed():
                if self.commits:  # it is published, as this one comes after it
                    last = self.commits[-1] = self.commits[-1].without_rows()
                    if last.number >= 0:  # not of the query whose savepoint this one began with
                        self.published = max(self.published, last.epoch)
                if entry.shape is not None:
                    self.shape, self._changes_to = entry.shape, None
                self.commits.append(msgspec.structs.replace(entry, shape=None))
                self._bytes_held += sum(len(each.content) for each in entry.staged)
                self._gone_on_from = None
                if entry.savepoint is not None:
                    self._keep_last()
            case OutputBegun():
                self.is_output_begun = True
            case OutputPublished():
                self.published = max(self.published, entry.epoch)
            case KeptSnapshot(savepoint):
                self.commits[-1] = msgspec.structs.replace(self.commits[-1], savepoint=savepoint)
                self._keep_last()
            case Dropped(name):
                self.savepoints = [each for each in self.savepoints if each.name != name]
                self.commits = [
                    msgspec.structs.replace(each, savepoint=None) if each.savepoint == name else each
                    for each in self.commits
                ]
            case Said():
                self.promises.setdefault(entry.input, Promises()).say(entry.epoch, entry.waiting)
            case JournalSummary():
                self._take_over(entry)

    def _take_over(self, summary: JournalSummary) -> None:
        self.shape = summary.shape
        self.positions.update(summary.positions)
        self.last_tick = summary.last_tick
        self.open_from = summary.open_from
        self.is_final = summary.is_final
        self.ticks = list(summary.ticks)
        self.commits = list(summary.commits)
        self.published = summary.published
        self.is_output_begun = summary.is_output_begun
        self.savepoints = list(summary.savepoints)
        names = dict.fromkeys(said.input for said in summary.promises)
        self.promises = {n: Promises.of(said for said in summary.promises if said.input == n) for n in names}
        self._entries = self._bytes_held = 0

    def _chain_at(self, place: int) -> SnapshotChain:
        first = next(number for number in reversed(range(place + 1)) if self.commits[number].is_whole)
        return SnapshotChain(self.commits[first : place + 1])

    def _keep_last(self) -> None:
        chain = self._chain_at(len(self.commits) - 1)
        name = self.commits[-1].savepoint
        assert name is not None
        savepoint = Savepoint(
            name,
            dict(self.positions),
            self.last_tick,
            self.open_from,
            # Where its last part is damaged, an older one of the chain is resumed from.
            self.ticks_after(SnapshotChain(chain.commits[:1])),
            [msgspec.structs.replace(each, staged=[]) for each in chain.commits],
        )
        self.savepoints = [*(each for each in self.savepoints if each.name != name), savepoint]

    def _forget_old_chains(self) -> None:
        # What is known to be damaged does not count: the only snapshot that is whole may come before it.
        in_use = self._gone_on_from
        last = len(self.commits) if in_use is None else self.commits.index(in_use.commits[-1]) + 1
        wholes = [number for number, commit in enumerate(self.commits[:last]) if commit.is_whole]
        if len(wholes) > self._chains_kept:
            self.commits = self.commits[wholes[-self._chains_kept] :]


# Completeness promises of inputs with an epoch column.
#
# A user or a source promises that the units found by then hold all rows of an input before an epoch. So the
# promise takes effect once these units are taken; and a unit that was found later must keep it: a row of an
# earlier epoch in such a unit is late. Both follow from the promise and from the names of the units that
# waited then. They do not depend on how fast anything was, and a driver that reads the journal again comes to
# the same result.
#
# Invariant: ``complete`` never goes back, and no promise is less than an earlier one.


@dataclass(slots=True)
class Promises:
    """The promises about one input; its owner changes it as promises are made and units are taken."""

    complete: int = 0
    """The epoch before which the input is complete, by the promises that have taken effect."""
    _waiting: list[tuple[int, set[str]]] = field(default_factory=list)
    """Promises that have not taken effect: the epoch, and the units that must be taken first."""

    @classmethod
    def of(cls, entries: Iterable[Said], complete: int = 0) -> "Promises":
        """The promises in these entries, for an input that is complete at least before an epoch."""
        promises = cls(complete)
        for entry in entries:
            promises.say(entry.epoch, entry.waiting)
        return promises

    def say(self, epoch: int, waiting: Iterable[str]) -> None:
        """Take note of a promise: the units that wait now complete the input before an epoch."""
        self._waiting.append((epoch, set(waiting)))
        self._believe()

    def take(self, units: Sequence[Unit]) -> None:
        """Take note that these units were taken, and of what they say that they complete."""
        taken = {unit.name for unit in units}
        for _, waiting in self._waiting:
            waiting -= taken
        self.reach(max((unit.complete_to or 0 for unit in units), default=0))

    def reach(self, epoch: int) -> None:
        """Take note that no unit left to take has rows before this epoch."""
        self.complete = max(self.complete, epoch)
        self._believe()

    def held_to(self, name: str) -> int:
        """The epoch before which rows of a unit are late: the last promise made before it was found."""
        return max([self.complete, *(epoch for epoch, waiting in self._waiting if name not in waiting)])

    @property
    def waited_for(self) -> set[str]:
        """The names of the units that must be taken before all promises take effect."""
        return {name for _, waiting in self._waiting for name in waiting}

    @property
    def last(self) -> int:
        """The last promise."""
        return max([self.complete, *(epoch for epoch, _ in self._waiting)])

    def is_known(self, epoch: int, waiting: Iterable[str]) -> bool:
        """Return whether this promise would add nothing."""
        return epoch <= self.complete or (epoch, set(waiting)) in self._waiting

    def entries(self, name: str) -> list[Said]:
        """The fewest entries that say the same about an input."""
        believed = [Said(name, self.complete, [])] if self.complete else []
        return [*believed, *(Said(name, epoch, sorted(waiting)) for epoch, waiting in self._waiting)]

    def _believe(self) -> None:
        for epoch, waiting in self._waiting:
            if not waiting:
                self.complete = max(self.complete, epoch)
        self._waiting = [each for each in self._waiting if each[0] > self.complete]
