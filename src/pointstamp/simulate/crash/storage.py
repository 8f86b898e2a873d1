"""Simulated storage with the write steps of ``LocalStorage``.

What is acknowledged is durable. What is not may be whole, absent, or begun:

- a writer that is killed before its object has its name leaves nothing under it: what it had written, up to
  any byte, is a new file with a name of its own, which is neither listed nor read;
- one that is killed after that, or that gets no answer, leaves it whole, but perhaps not yet on the disk: it
  is visible to all, and if the power fails before the folder goes to the disk, it is gone; AlreadyStored and
  ``sync`` make it sure;
- a deletion is never made durable: where the power fails, what was deleted may be there again.

All of it is within the promises of ``pointstamp.storage.port``. Not here: objects that lie torn under their
names, which no storage may show (a damaged disk may, see ``damage``); ``writes_in_place`` is a storage that
breaks the promise, so that tests can check that it is noticed.
"""

from collections.abc import Callable
from typing import Final

from pointstamp.errors import AlreadyStored
from pointstamp.simulate.crash.durability import Durability
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content
from pointstamp.storage.words import joined


class SimulatedStorage:
    """Objects in memory, with the failures of the world."""

    address: Final = "a simulated storage"
    is_exclusive: Final = True
    writes_in_place: bool = False
    is_synced: bool = True
    """Whether what is acknowledged is on the disk; a storage for which it is not breaks its promise."""

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._objects = MemoryStorage()
        self._unsure: dict[str, bytes | None] = {}
        """What is there instead, perhaps, when the power has failed: an object as it was, or nothing."""
        self.begun = 0
        """How many new files were left by killed writers."""

    def create(self, name: str, content: Content) -> None:
        """Store a new object; AlreadyStored where there is one."""
        self._store("create", name, joined(content), self._objects.create)

    def write(self, name: str, content: Content) -> None:
        """Store an object, in place of one that may be there."""
        self._store("write", name, joined(content), self._objects.write)

    def sync(self, name: str) -> None:
        """Make a visible object durable; NotStored if it does not exist."""

        def settle() -> None:
            self._objects.sync(name)
            self._sync(name)

        self._durability.around(f"sync '{name}'", settle)

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        return self._durability.around(f"read '{name}'", lambda: self._objects.read(name))

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None where there is none."""
        return self._durability.around(f"size of '{name}'", lambda: self._objects.size(name))

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin with a prefix, sorted."""
        return self._durability.around(f"list '{prefix}'", lambda: self._objects.list(prefix))

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none. It may come back."""

        def remove() -> None:
            if self._objects.size(name) is not None:
                self._unsure.setdefault(name, self._objects.read(name))
                self._objects.delete(name)

        self._durability.around(f"delete '{name}'", remove)

    def damage(self, name: str) -> None:
        """Cut an object in half, as a disk might; nothing happens where there is none."""
        if self._objects.size(name) is not None:
            whole = self._objects.read(name)
            self._objects.write(name, whole[: len(whole) // 2])

    def lose_power(self) -> int:
        """Objects that were not on the disk may go back to what they were; return how many do."""
        changed = 0
        for name, before in sorted(self._unsure.items()):
            if not self._durability.draw(2):
                continue
            changed += 1
            if before is None:
                self._objects.delete(name)
            else:
                self._objects.write(name, before)
        self._unsure.clear()
        return changed

    def _store(self, what: str, name: str, content: bytes, store: Callable[[str, bytes], None]) -> None:
        def seen() -> None:
            """Whole under its name, and in the memory of the machine alone."""
            before = self._objects.read(name) if self._objects.size(name) is not None else None
            try:
                store(name, content)
            except AlreadyStored:
                self._sync(name)  # what is said to be there is on the disk
                raise
            self._unsure.setdefault(name, before)

        def done() -> None:
            seen()
            if self.is_synced:
                self._sync(name)

        def killed() -> None:
            cut = self._durability.draw(len(content) + 1)
            self.begun += 1
            if self.writes_in_place and cut:
                store(name, content[:cut])

        self._durability.around(f"{what} '{name}'", done, killed=killed, unsure=seen)

    def _sync(self, name: str) -> None:
        """The folder goes to the disk: all objects in it are sure. Deletions stay unsure, as they may."""
        folder = name.rpartition("/")[0]
        for each in list(self._unsure):
            is_there = self._objects.size(each) is not None
            if each == name or (is_there and each.rpartition("/")[0] == folder):
                del self._unsure[each]
