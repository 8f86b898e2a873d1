"""In-memory storage for tests, simulations and short runs.

It keeps every promise of the port but durability: objects are gone when the process is. Several threads may
use one at once. It cannot be sent to another process, which would get a copy and believe it shared.
"""

import threading
from typing import Final, NoReturn

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content, already_stored, check_name, check_prefix, joined, nothing_stored


class MemoryStorage:
    """Objects in a dictionary; a lock makes each operation one step."""

    address: Final = "memory"
    is_exclusive: Final = True

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, name: str, content: Content) -> None:
        """Store a new object; AlreadyStored where there is one."""
        check_name(name)
        whole = joined(content)
        with self._lock:
            if name in self._objects:
                raise already_stored(name, self.address)
            self._objects[name] = whole

    def write(self, name: str, content: Content) -> None:
        """Store an object, in place of one that may be there."""
        check_name(name)
        whole = joined(content)
        with self._lock:
            self._objects[name] = whole

    def sync(self, name: str) -> None:
        """Nothing outlives the process; NotStored where there is no object."""
        self.read(name)

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        with self._lock:
            found = self._objects.get(check_name(name))
        if found is None:
            raise nothing_stored(name, self.address)
        return found

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None where there is none."""
        with self._lock:
            found = self._objects.get(check_name(name))
        return None if found is None else len(found)

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin with a prefix, sorted."""
        check_prefix(prefix)
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none."""
        with self._lock:
            self._objects.pop(check_name(name), None)

    def __reduce__(self) -> NoReturn:
        raise StorageError(
            "a MemoryStorage cannot be sent to another process, which would get a copy of it. Use a "
            "folder that all processes share: LocalStorage, or storage_at with an address."
        )
