"""Finding new files in a folder: told by the kernel where it can, else by listing at an interval.

The order of the start is what nothing is lost by: first the kernel is asked to tell of arrivals, then the
folder is listed. A file that comes in between is found twice and taken once; the other way around it would
be found by neither. After that no file that is done is looked at again, unless the kernel has lost events:
then the folder is listed once.

A listing is made in a thread where it is repeated, so that ``poll`` never waits for a far store. At most one
is under way, and what it found is taken in by the next poll.

Whenever a listing shows a new marker, the folder is listed once more: a listing may show a marker and not
a file that was there before it, because the folder was changing under it; one begun after the marker was
there shows them all.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from pointstamp.sources.folder import Entry, Folder
from pointstamp.sources.grouping import Grouping, Rules
from pointstamp.sources.inotify import FolderEvents
from pointstamp.sources.once import AllAtOnce
from pointstamp.sources.port import Unit


class EventWatch:
    """Units of a local folder, found as the kernel tells of files; for one thread."""

    def __init__(self, folder: Folder, rules: Rules, grouping: Grouping, events: FolderEvents) -> None:
        # The events were asked for before: see above.
        self._listing = _Listing(folder, rules, grouping)
        self._grouping = grouping
        self._events = events
        try:
            self._found = self._listing.make()
        except BaseException:
            events.close()
            raise

    def poll(self) -> list[Unit]:
        """The units found since the last call; files that came together are sorted by name."""
        found, self._found = self._found, []
        names, is_overflow = self._events.read()
        found += map(Entry, names)
        if is_overflow:
            found += self._listing.make()
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


class ListingWatch:
    """Units of any folder, found by listing it at an interval; for one thread."""

    def __init__(
        self,
        folder: Folder,
        rules: Rules,
        grouping: Grouping,
        every_seconds: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._listing = _Listing(folder, rules, grouping)
        self._grouping = grouping
        self._every_seconds = every_seconds
        self._clock = clock
        self._found = self._listing.make()
        self._next_at = clock() + every_seconds
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[list[Entry]] | None = None

    def poll(self) -> list[Unit]:
        """The units of the last listing that has ended; begins the next one when it is time."""
        found, self._found = self._found, []
        if self._under_way is not None and self._under_way.done():
            ended, self._under_way = self._under_way, None
            self._next_at = self._clock() + self._every_seconds
            found += ended.result()
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
        """Begin no other listing; one that is under way ends by itself."""
        self._next_at = float("inf")
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def up_to_now(folder: Folder, rules: Rules, grouping: Grouping) -> AllAtOnce:
    """Units of what one listing finds, and then no more; groups that no marker closes are left."""
    return AllAtOnce(grouping.arrive(_Listing(folder, rules, grouping).make()))


class _Listing:
    """New files of a folder: files with rows before markers, each by name, and the final marker last."""

    def __init__(self, folder: Folder, rules: Rules, grouping: Grouping) -> None:
        self._folder = folder
        self._rules = rules
        self._grouping = grouping

    def make(self) -> list[Entry]:
        found = self._new()
        if borders := [entry for entry in found.values() if self._rules.is_border(entry.name)]:
            files = [entry for entry in self._new().values() if not self._rules.is_border(entry.name)]
            # Nothing that the first listing has shown is forgotten, in case a file is gone by now.
            found |= {entry.name: entry for entry in [*files, *borders]}
        return sorted(found.values(), key=self._rank)

    def _new(self) -> dict[str, Entry]:
        is_new = self._grouping.is_new
        return {entry.name: entry for entry in self._folder.list() if is_new(entry.name)}

    def _rank(self, entry: Entry) -> tuple[bool, bool, str]:
        return entry.name == self._rules.until, self._rules.is_border(entry.name), entry.name
