"""Test that a store supports exclusive creation, before a query relies on it.

Some stores that resemble S3 refuse a second writer that comes later, and let two pass that come at the same
time. So the trial races: several writers create the same new object at once, several times. A store that
fails is rejected with an error; a store that passes may still lie, but not often.
"""

import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from pointstamp.errors import AlreadyStored, StorageError
from pointstamp.optional import conforms
from pointstamp.storage.port import SaysIfTried, Storage

RACERS: Final = 4
ROUNDS: Final = 8
"""A store that lets two pass in two races of three is found with a chance of 99.98 %."""

FOLDER: Final = "_pointstamp/trial"
"""The folder of the objects of a trial; each is removed after it."""

_SECONDS_MAX: Final = 120.0


def _needs_trial(storage: object) -> bool:
    return conforms(storage, SaysIfTried) and storage.needs_trial


def check_exclusive(storage: Storage) -> None:
    """Raise StorageError if a store that needs a trial does not create exclusively.

    Stores of this host, and those that cannot say it anyway, are not tried.
    """
    if not _needs_trial(storage):
        return
    names = [f"{FOLDER}/{uuid.uuid4().hex}-{number}" for number in range(ROUNDS)]
    race = _Race(storage, names)
    try:
        race.run()
    finally:
        race.clean()
    for name in names:
        won = race.won[name]
        if len(won) != 1:
            raise StorageError(
                f"{storage.address} does not support exclusive creation, which checkpoints and outputs "
                f"need: {RACERS} writers created the same new object at the same time, and {len(won)} of "
                "them succeeded. Use a store with conditional writes (If-None-Match: *), such as Amazon "
                "S3, Google Cloud Storage or Azure, or a local disk or HDFS."
            )


class _Race:
    """Writers that create the same objects, one after the other and all at once."""

    def __init__(self, storage: Storage, names: Sequence[str]) -> None:
        self._storage = storage
        self._names = names
        self._ready = threading.Barrier(RACERS)
        self._failed: list[Exception] = []
        self.won: dict[str, list[int]] = {name: [] for name in names}

    def run(self) -> None:
        """Let them race; StorageError where the store does not answer."""
        self._at_once(self._write)
        for error in self._failed:
            raise error

    def clean(self) -> None:
        """Remove what was created; what cannot be removed does no harm."""
        self._at_once(self._remove)

    def _at_once(self, act: Callable[[int], None]) -> None:
        threads = [threading.Thread(target=act, args=(number,), daemon=True) for number in range(RACERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self, racer: int) -> None:
        try:
            for name in self._names:
                self._ready.wait(_SECONDS_MAX)
                try:
                    self._storage.create(name, b"%d" % racer)
                    self.won[name].append(racer)
                except AlreadyStored:
                    pass
        except threading.BrokenBarrierError:
            pass
        except Exception as error:  # what a store raises has no common kind
            self._failed.append(error)
            self._ready.abort()

    def _remove(self, racer: int) -> None:
        with suppress(StorageError):
            for name in self._names[racer::RACERS]:
                self._storage.delete(name)
