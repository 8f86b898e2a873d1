"""A disk whose power may fail: names that were given and whose folder was not synced are gone then.

It stands between ``LocalStorage`` and the file system. Content is synced before it gets a name, so what can
be lost is a name: of a file, or of a folder with everything below it. ``dies_at`` lets a process die after it
has given a name and before the folder is synced; what it has done stays as the system has it in memory.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


class Died(BaseException):
    """The process is gone."""


class Disk:
    """Knows which names are not on the disk yet."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._unsynced: dict[str, list[str]] = {}
        self.dies_at: Callable[[str], bool] | None = None
        self._link, self._replace, self._mkdir, self._fsync = os.link, os.replace, os.mkdir, os.fsync
        patch.setattr(os, "link", self.link)
        patch.setattr(os, "replace", self.replace)
        patch.setattr(os, "mkdir", self.mkdir)
        patch.setattr(os, "fsync", self.fsync)

    def link(self, source: str, target: str) -> None:
        self._link(source, target)
        self._named(target)

    def replace(self, source: str, target: str) -> None:
        self._replace(source, target)
        self._named(target)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._mkdir(path, mode)
        self._named(path)

    def fsync(self, handle: int) -> None:
        self._fsync(handle)
        self._unsynced.pop(os.readlink(f"/proc/self/fd/{handle}"), None)

    def lose_power(self) -> list[str]:
        """What was not on the disk is gone; return its names."""
        lost = [name for names in self._unsynced.values() for name in names]
        self._unsynced.clear()
        for name in lost:
            if Path(name).is_dir():
                shutil.rmtree(name)
            else:
                Path(name).unlink(missing_ok=True)
        return lost

    def _named(self, path: str) -> None:
        self._unsynced.setdefault(os.path.dirname(path), []).append(path)
        if self.dies_at is not None and self.dies_at(path):
            self.dies_at = None
            raise Died(path)
