"""Merge small published files while they are read and extended.

A turn takes the newest compaction and the commits after it, merges some files (``merging``, ``merging``), and
creates the next compaction (``chain``), which lists them in place of what they were made of. Then it
removes what has been replaced for long enough. Each is bounded, and may end, die or be repeated anywhere:

- before the compaction is created, there are files that no list contains. Their names say for which number
  they were made; when that number is taken by a compaction that does not list them, they are garbage;
- after it, all is done but the removal, which follows from what is stored and is taken up by any later turn;
- of two compactors at once (one may be of a driver that was replaced), one gets the number, and the work of
  the other is such garbage. Both read only what is published, so neither can be wrong.

Nothing is removed because of what this process remembers.
"""

import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import time
from typing import Final

from pointstamp.connectors.published.bases import BaseKeeper
from pointstamp.connectors.published.chain import (
    Chain,
    Compaction,
    Compactions,
    KeptCompaction,
    PublishedMoment,
    moment,
    moment_now,
)
from pointstamp.connectors.published.merging import (
    CompactionPolicy,
    Maker,
    Stopped,
    Unreadable,
    chosen_groups,
    is_no_newer,
    merge,
)
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.staging import folder_name
from pointstamp.errors import AlreadyStored, NotStored
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

_log = logging.getLogger("pointstamp.connectors")

TAIL_COMMITS: Final = 8
"""The number of last commits that are not merged, so that readers that follow the output read small files."""

FILES_PER_TURN_MAX: Final = 1_000
LOOK_SECONDS: Final = 60.0
"""Seconds between two searches for work, even if hardly anything is published."""

_KEPT_PER_GRACE: Final = 4


class ParquetCompactor:
    """Compacts the output of a folder; called by one thread, next to other compactors.

    The last ``tail`` commits are left alone. With ``is_full`` all that is small is merged, not only where
    there is enough of a size.
    """

    def __init__(
        self,
        storage: Storage,
        policy: CompactionPolicy,
        *,
        tail: int = TAIL_COMMITS,
        is_full: bool = False,
        now_seconds: Callable[[], float] = time,
    ) -> None:
        self._storage = storage
        self._policy = policy
        self._compactions = Compactions(storage)
        self._tail = tail
        self._is_full = is_full
        self._now_seconds = now_seconds
        self._has_more = False
        self._cleaned = -1  # what was replaced before this compaction is removed
        self._left_alone: set[str] = set()
        self._looked: tuple[int, float] | None = None  # the last commit and the time of the last look
        self._is_unfinished = False
        self._bases = BaseKeeper(storage, policy, now_seconds, is_full=is_full)

    @property
    def pause_seconds(self) -> float:
        """Seconds between two turns."""
        return self._policy.pause_seconds

    def turn(self, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Merge some files if that is due, remove some that were replaced, and say if there is more to do."""
        is_first = self._looked is None
        if not self._may_be_due():
            return False
        self._is_unfinished = self._look(is_stopped, is_first=is_first)
        return self._is_unfinished

    def _may_be_due(self) -> bool:
        """Return whether enough commits or time have passed to look at the files themselves."""
        commit, now = Chain(self._storage).newest(), self._now_seconds()
        if commit is None:
            return False
        if self._looked is not None and not (self._is_full or self._is_unfinished):
            before, at_seconds = self._looked
            if commit - before < self._policy.files and now - at_seconds < LOOK_SECONDS:
                return False
        self._looked = (commit, now)
        return True

    def _look(self, is_stopped: Callable[[], bool], *, is_first: bool) -> bool:
        newest = self._compactions.newest()
        # Before, because the next compaction keeps those that are still needed to say what may be removed.
        is_left = newest is not None and self._remove(newest)
        try:
            made = self._compact_if_due(newest, is_stopped, is_first=is_first)
        except AlreadyStored:
            return True  # another one was faster
        except Stopped:
            return False
        if made and not is_stopped():
            # Looked up again: who was late may have made one whose number was free because it is long gone.
            is_left = (newest := self._compactions.newest()) is not None and self._remove(newest)
        self._keep_bases(newest, is_stopped)
        return is_left or self._has_more

    def _keep_bases(self, newest: Compaction | None, is_stopped: Callable[[], bool]) -> None:
        now = moment(self._storage, newest, tail=self._tail)
        if now is not None:
            with suppress(Stopped):
                self._bases.turn(now, is_stopped)

    # Merging.

    def _compact_if_due(
        self, newest: Compaction | None, is_stopped: Callable[[], bool], *, is_first: bool
    ) -> bool:
        work = self._work(newest, is_first=is_first)
        if work is not None:
            self._compact(newest, work, is_stopped)
        return work is not None

    def _work(self, newest: Compaction | None, *, is_first: bool) -> "_Work | None":
        """The files to merge now, up to a commit; None if nothing is due."""
        now = moment(self._storage, newest, tail=self._tail)
        if now is None:
            return None
        before = 0 if newest is None else len(newest.files)
        is_due = now.files_after >= max(4 * self._policy.files, before // 8)
        if self._is_full:
            is_due = newest is None or now.commits_through > newest.commits_through
        if not (is_due or self._has_more or is_first):
            return None
        files = [file for file in now.files if file.path not in self._left_alone]
        groups = chosen_groups(files, self._policy, is_full=self._is_full)
        self._has_more = False
        return _Work(now, self._affordable(groups)) if groups or is_due else None

    def _affordable(self, groups: list[list[Staged]]) -> list[list[Staged]]:
        """The groups that one turn may read."""
        taken: list[list[Staged]] = []
        size = count = 0
        for group in groups:
            size += sum(file.size_bytes for file in group)
            count += len(group)
            is_too_much = size > self._policy.file_bytes or count > FILES_PER_TURN_MAX
            self._has_more = self._has_more or is_too_much
            if is_too_much and taken:
                break
            taken.append(group[:FILES_PER_TURN_MAX])
        return taken

    def _compact(self, before: Compaction | None, work: "_Work", is_stopped: Callable[[], bool]) -> None:
        number = 0 if before is None else before.number + 1
        now = work.now
        maker = Maker(now.query, number, secrets.token_hex(8))
        merges: list[tuple[list[Staged], Staged]] = []
        for index, group in enumerate(work.groups):
            schema = now.outputs[group[0].output].schema()
            try:
                merged = merge(self._storage, schema, group, maker.name(group, index), is_stopped)
            except Unreadable as error:
                self._leave_alone(error, number)
                continue
            merges.append((group, merged))
        files = replace_groups(now.files, merges)
        compaction = Compaction(
            number,
            now.query,
            now.outputs,
            now.commits_through,
            now.epochs_through,
            now.is_complete,
            files,
            self._now_seconds(),
            self._kept(before),
        )
        self._compactions.create(compaction)

    def _leave_alone(self, error: Unreadable, number: int) -> None:
        """A listed file that cannot be read is not merged; readers will report it."""
        if max(self._compactions.numbers(), default=-1) >= number:
            raise AlreadyStored("another compaction has already replaced the files to merge.") from error
        _log.warning("compaction skips a file: %s", error)
        self._left_alone.add(error.file.path)
        self._has_more = True

    def _kept(self, before: Compaction | None) -> list[KeptCompaction]:
        """The one before, and those that say since when files are replaced: a few, some time apart.

        The one before stays, so that a reader that lists them during a change finds one of them.
        """
        if before is None:
            return []
        kept = [each for each in before.kept if each.number > self._cleaned]
        apart = self._policy.keep_seconds / _KEPT_PER_GRACE
        if len(kept) > 1 and kept[-1].at_seconds - kept[-2].at_seconds < apart:
            kept.pop()
        return [*kept, KeptCompaction(before.number, before.at_seconds)]

    # Removing.

    def _remove(self, newest: Compaction) -> bool:
        """Remove what has been replaced, files only for long enough; whether there is more of it."""
        self._compactions.remove_unneeded(newest)
        latest = self._now_seconds() - self._policy.keep_seconds
        known = [*newest.kept, KeptCompaction(newest.number, newest.at_seconds)]
        old = [each.number for each in known if each.at_seconds <= latest]
        if not old or old[-1] <= self._cleaned:
            return False
        try:
            then = newest if old[-1] == newest.number else self._compactions.read(old[-1])
        except NotStored:
            return True  # there is a newer one than the newest that was found
        for removed, path in enumerate(self._replaced(then, newest)):
            if removed == FILES_PER_TURN_MAX:
                return True
            self._storage.delete(path)
        self._cleaned = then.number
        return False

    def _replaced(self, then: Compaction, newest: Compaction) -> Iterator[str]:
        """The files that no reader needs since a compaction: replaced, or of writers that never finished."""
        listed = {file.path for each in (then, newest) for file in each.files}
        for output in then.outputs:
            for path in self._storage.list(f"{folder_name(output)}/"):
                if path not in listed and is_no_newer(path.rpartition("/")[2], then):
                    yield path


def replace_groups(files: Sequence[Staged], merges: Iterable[tuple[list[Staged], Staged]]) -> list[Staged]:
    """Return the files with each group replaced by the file that it was merged into.

    The new file stands where the first file of its group stood. So files stay in the order of their first
    epochs, by which neighbours are found and rows are read.
    """
    places: dict[str, Staged | None] = {}
    for group, merged in merges:
        places |= dict.fromkeys((file.path for file in group), None) | {group[0].path: merged}
    return [place for file in files if (place := places.get(file.path, file)) is not None]


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of a turn: the files up to a commit, and their groups, each of which becomes one file."""

    now: PublishedMoment
    groups: list[list[Staged]]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of ``compact``: the number of files before and after."""

    files_before: int
    files_after: int


def compact(
    path: str | os.PathLike[str],
    policy: CompactionPolicy | None = None,
    *,
    open_storage: Callable[[str], Storage] = storage_at,
) -> Compacted:
    """Merge all small files of a published output now.

    It may be called at any time, from any host, also while a query publishes there and readers read. Replaced
    files are kept as long as the policy sets; a later call, or the query, deletes them.

    Args:
        path: The folder of the published output.
        policy (CompactionPolicy, default None): The sizes of files, and how long replaced ones are kept.
        open_storage: Opens the folder as a ``ps.ports.Storage``.

    Returns:
        The number of files before and after.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> flow = ps.Dataflow("words")
        >>> flow.output("words", flow.stream_input("words", "word string"))
        >>> places = {"checkpoint": f"{folder}/state", "output": f"{folder}/out"}
        >>> flow.start(words=[[{"word": "so"}]] * 3, available_now=True, **places).await_termination()
        >>> ps.io.compact(f"{folder}/out")
        Compacted(files_before=3, files_after=1)

    """
    storage = open_storage(os.fspath(path))
    before = moment_now(storage, path)
    compactor = ParquetCompactor(storage, policy or CompactionPolicy(), tail=0, is_full=True)
    while compactor.turn():
        pass
    after = moment(storage, Compactions(storage).newest()) or before
    return Compacted(len(before.files), len(after.files))
