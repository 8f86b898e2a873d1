"""Upkeep: what a sink has to do beside a query, such as merging small files, in a thread of its own.

It runs while a generation's workers do, in turns that are bounded, and is woken by commits, which never wait
for it. A turn that fails is counted, logged, and tried again later: upkeep never ends a query. The supervisor
stops it, so that no thread of ours runs while worker processes are started.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from pointstamp.sinks.port import Compactor

_log = logging.getLogger("pointstamp.query")

STOP_SECONDS_MAX: Final = 10.0
IDLE_SECONDS: Final = 60.0
PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0
"""The pause after the first failure; each further failure doubles it."""

_PAUSE_SECONDS_MAX: Final = 600.0


class Upkeep:
    """Lets a compactor take its turns between ``start`` and ``stop``; the counts continue over both."""

    def __init__(self, make: Callable[[], Compactor | None] | None, query: str) -> None:
        self._make = make
        self._query = query
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.turns = 0
        self.failures = 0

    def start(self) -> None:
        """Begin to take turns, if the sink has anything to do."""
        if self._make is None:
            return
        # New ones each time: a thread that could not be waited for must not be woken to life again.
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._woken.set()
        self._thread = threading.Thread(
            target=self._work,
            args=(self._make, self._woken, self._stopped),
            name=f"pointstamp-upkeep-{self._query}",
            daemon=True,
        )
        self._thread.start()

    def wake(self) -> None:
        """There is something new; returns at once."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread, even in the middle of a turn."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS_MAX)
            self._thread = None

    def _work(
        self,
        make: Callable[[], Compactor | None],
        woken: threading.Event,
        stopped: threading.Event,
    ) -> None:
        compactor: Compactor | None = None
        failed_seconds = 0.0
        while not stopped.is_set():
            woken.wait(IDLE_SECONDS)
            woken.clear()
            try:
                compactor = compactor or make()
                if compactor is None:
                    return
                if stopped.is_set():
                    return
                if compactor.turn(stopped.is_set):
                    woken.set()
                self.turns += 1
                failed_seconds = 0.0
            except Exception as error:  # whatever it is, the query does not depend on it
                self.failures += 1
                failed_seconds = min(max(PAUSE_AFTER_FAILURE_SECONDS, 2 * failed_seconds), _PAUSE_SECONDS_MAX)
                _log.warning(
                    "query '%s': the output could not be compacted (failure %s; the next attempt is in %g "
                    "s): %s",
                    self._query,
                    self.failures,
                    failed_seconds,
                    error,
                )
                woken.set()
            stopped.wait(max(failed_seconds, 0.0 if compactor is None else compactor.pause_seconds))
