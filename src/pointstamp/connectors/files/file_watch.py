"""Find new files in a folder, by inotify or by listing.

The order at the start makes sure that nothing is lost: first the kernel is asked to tell of arrivals, then
the folder is listed. A file that arrives in between is found twice and taken once; the other way around it
would be missed by both. After that no file is looked at twice, unless the kernel has lost events: then the
folder is listed once.

A listing is made in a thread where it is repeated, so that ``poll`` never waits for a far store. At most one
is in progress, and what it found is taken in by the next poll.

What a listing shows may still be being written, as a file that arrives may: it is taken when it is known to
be complete (``pointstamp.connectors.files.wholeness``), and what must not overtake it waits, too.

Whenever a listing shows a new marker, the folder is listed once more: a listing may show a marker and not
a file that was there before it, because the folder was changing under it; one begun after the marker was
there shows them all.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Final

from pointstamp.connectors.files.folder import Entry, Folder
from pointstamp.connectors.files.inotify import FolderEvents
from pointstamp.connectors.files.units import Grouping, GroupingRules
from pointstamp.connectors.files.wholeness import SETTLE_SECONDS, Settling, State
from pointstamp.connectors.source import Unit, WatchBase

_LOOK_EVERY_SECONDS: Final = 0.2
_COMPLETE_WITHIN_SECONDS: Final = 2 * SETTLE_SECONDS
"""Seconds that a refresh waits for files that exist and may be incomplete.

A process that is forked while a file is written holds it open for a moment longer than its writer. A file
that is still being written after this time was not there at the refresh.
"""


class Listing:
    """The new files of a folder that are complete: with rows before markers, in order, the final one last.

    The next call looks again at files that are, or may be, still written.
    """

    def __init__(self, folder: Folder, rules: GroupingRules, grouping: Grouping, settling: Settling) -> None:
        self._folder = folder
        self._rules = rules
        self._grouping = grouping
        self._settling = settling
        self.waiting: dict[str, Entry] = {}
        """Files that are not known to be complete, and those that must not be taken before them."""
        self.is_unsure = False
        """Whether one of them may turn out to be complete though nothing happens to it."""

    def make(self) -> list[Entry]:
        """List the folder."""
        found = self._new()
        if borders := [entry for entry in found.values() if self._rules.is_border(entry.name)]:
            files = [entry for entry in self._new().values() if not self._rules.is_border(entry.name)]
            # Nothing that the first listing has shown is forgotten, in case a file is gone by now.
            found |= {entry.name: entry for entry in [*files, *borders]}
        return self._sift(found.values())

    def look_again(self, told: Iterable[str] = ()) -> list[Entry]:
        """Look at what waits; files that were told are complete."""
        told = list(told)
        if not self.waiting:
            return [Entry(name) for name in told]
        found = {**self.waiting, **{name: Entry(name) for name in told}}
        return self._sift(found.values(), frozenset(told))

    def _sift(self, found: Iterable[Entry], told: frozenset[str] = frozenset()) -> list[Entry]:
        """Those that may be taken now, in order; the others wait."""
        whole: list[Entry] = []
        self.waiting = {}
        self.is_unsure = is_written = False
        self._settling.forget(told)
        self._grouping.forget(told)
        candidates = [entry for entry in found if self._grouping.may_be_input(entry.name)]
        for entry in sorted(candidates, key=self._grouping.rank):
            if self._must_wait(entry.name, is_written=is_written):
                self.waiting[entry.name] = entry
                continue
            state = State.WHOLE if entry.name in told else self._settling.state(entry.name)
            if state is State.WHOLE:
                whole.append(entry)
            elif state is not State.GONE:
                self.waiting[entry.name] = Entry(entry.name)  # it may have another size and time by then
                self._grouping.forget((entry.name,))
                self.is_unsure |= state is State.UNKNOWN
                is_written |= state is State.WRITTEN
        self._grouping.prepare(whole)
        return whole

    def _must_wait(self, name: str, *, is_written: bool) -> bool:
        """Return whether a file comes after one that is not known to be complete, and must not overtake it.

        Where names say the order, what is overtaken is never looked at again. A marker closes the group of
        what was there before it: not of what is being written, but perhaps of unknown files.
        """
        if self._rules.in_order or name == self._rules.until:
            return self.is_unsure or is_written
        return self.is_unsure and self._rules.is_border(name)

    def _new(self) -> dict[str, Entry]:
        listed = self._folder.list()
        self._grouping.listed(listed)
        return {entry.name: entry for entry in listed if self._grouping.is_new(entry.name)}


class EventWatch(WatchBase):
    """A watch of a local folder by kernel events; for one thread."""

    def __init__(
        self,
        listing: Listing,
        grouping: Grouping,
        events: FolderEvents,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # The events were asked for before: see above.
        self._listing = listing
        self._grouping = grouping
        self._events = events
        self._clock = clock
        try:
            self._found = self._listing.make()
        except BaseException:
            events.close()
            raise
        self._look_at = clock() + _LOOK_EVERY_SECONDS
        self._must_list = False
        self._refreshed_until = 0.0

    def refresh(self) -> None:
        """Let the next poll list the folder."""
        self._must_list = True
        self._refreshed_until = self._clock() + _COMPLETE_WITHIN_SECONDS

    @property
    def is_refreshing(self) -> bool:
        """Whether what was there at the last ``refresh`` may not have been returned yet."""
        return self._must_list or (bool(self._listing.waiting) and self._clock() < self._refreshed_until)

    def poll(self) -> list[Unit]:
        """The units found since the last call; files that came together are in the order of the source."""
        found, self._found = self._found, []
        names, is_overflow = self._events.read()
        if names or (self._listing.waiting and self._clock() >= self._look_at):
            found += self._listing.look_again(names)
            self._look_at = self._clock() + _LOOK_EVERY_SECONDS
        if is_overflow or self._must_list:
            found += self._listing.make()
            self._must_list = False
        return self._grouping.arrive(found)

    def fileno(self) -> int:
        """Readable when a file has arrived."""
        return self._events.fileno()

    @property
    def is_finished(self) -> bool:
        """Whether the final marker was found."""
        return self._grouping.is_finished

    def close(self) -> None:
        """Stop watching."""
        self._events.close()


class ListingWatch(WatchBase):
    """Units of any folder, found by listing it at an interval; for one thread."""

    def __init__(
        self,
        listing: Listing,
        grouping: Grouping,
        every_seconds: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._listing = listing
        self._grouping = grouping
        self._every_seconds = every_seconds
        self._clock = clock
        self._found = self._listing.make()
        self._next_at = clock() + every_seconds
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[list[Entry]] | None = None
        self._has_old_listing = False
        self._must_list = False
        self._has_incomplete = False
        self._refreshed_until = 0.0

    def refresh(self) -> None:
        """Start another listing now; one in progress may have missed files."""
        self._must_list = True
        self._refreshed_until = self._clock() + _COMPLETE_WITHIN_SECONDS
        self._has_old_listing = self._under_way is not None
        self._next_at = self._clock()

    @property
    def is_refreshing(self) -> bool:
        """Whether what was there at the last ``refresh`` may not have been returned yet."""
        return self._must_list or (self._has_incomplete and self._clock() < self._refreshed_until)

    def poll(self) -> list[Unit]:
        """The units of the last listing that has ended; begins the next one when it is time."""
        found, self._found = self._found, []
        if self._under_way is not None and self._under_way.done():
            ended, self._under_way = self._under_way, None
            found += ended.result()
            self._must_list &= self._has_old_listing
            self._has_incomplete = bool(self._listing.waiting)
            pause = (
                min(self._every_seconds, _LOOK_EVERY_SECONDS) if self.is_refreshing else self._every_seconds
            )
            self._next_at = self._clock() + (0.0 if self._has_old_listing else pause)
            self._has_old_listing = False
        units = self._grouping.arrive(found)
        # Only now: the thread looks at what was taken, which must not change under it.
        if self._under_way is None and not self.is_finished and self._clock() >= self._next_at:
            self._thread = self._thread or ThreadPoolExecutor(1, "pointstamp-listing")
            self._under_way = self._thread.submit(self._listing.make)
        return units

    def fileno(self) -> None:
        """Nothing becomes readable; poll from time to time."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether the final marker was found."""
        return self._grouping.is_finished

    def close(self) -> None:
        """Stop listing; a listing in progress ends by itself."""
        self._next_at = float("inf")
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


class UpToNow(WatchBase):
    """A watch of the files that exist now; for one thread.

    A file that is being written does not count. If it is not known whether a file is complete, it is waited
    for. Groups that no marker closes are left out.
    """

    def __init__(self, listing: Listing, grouping: Grouping, clock: Callable[[], float] = monotonic) -> None:
        self._listing = listing
        self._grouping = grouping
        self._clock = clock
        self._units = grouping.arrive(listing.make())
        self._look_at = clock() + _LOOK_EVERY_SECONDS
        self._is_polled = False

    def poll(self) -> list[Unit]:
        """The units that are known to be complete by now."""
        units, self._units = self._units, []
        if self._listing.is_unsure and self._clock() >= self._look_at:
            units += self._grouping.arrive(self._listing.look_again())
            self._look_at = self._clock() + _LOOK_EVERY_SECONDS
        self._is_polled = True
        return units

    def fileno(self) -> None:
        """Nothing becomes readable; poll from time to time."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether everything that was there was returned."""
        return self._is_polled and not self._listing.is_unsure

    def close(self) -> None:
        """Nothing is held."""
