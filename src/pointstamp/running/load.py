"""The load of workers: waiting rows, busy operators and memory.

Operators keep no clock. How busy each is, is found by looking: a thread of its own looks many times a second
which operator its worker is inside of, and counts. It samples only while a reader asks: it starts with the
first question, and ends when none has come for a moment. So whoever is not watched pays nothing.
"""

import os
import threading
from collections.abc import Sequence
from time import monotonic, process_time
from typing import Final

from pointstamp.running.messages import Load, OperatorLoad
from pointstamp.worker.instance import Instance
from pointstamp.worker.worker import Worker

_LOOK_SECONDS: Final = 0.04
LARGEST_KEYS: Final = 5
"""So many keys of each thing that is kept are named."""
_UNASKED_SECONDS_MAX: Final = 5.0
"""After so long without a question the thread ends."""


class LoadMeter:
    """The load of workers of this process; asked by the thread that steps them, between two steps."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._looks = 0
        self._seen: list[dict[int, int]] = [{} for _ in workers]
        self._asked_seconds = 0.0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def told(self, number: int = 0, *, with_keys: bool = False) -> Load:
        """The reported load of one worker, by its index."""
        self._asked_seconds = monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="pointstamp-load", daemon=True)
            self._thread.start()
        worker, seen = self._workers[number], self._seen[number]
        return Load(
            monotonic(),
            memory_bytes(),
            process_time(),
            self._looks,
            [_operator(each, seen.get(index, 0)) for index, each in worker.instances.items()],
            worker.largest_keys(LARGEST_KEYS) if with_keys else None,
        )

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            if monotonic() - self._asked_seconds > _UNASKED_SECONDS_MAX:
                return
            self.look()

    def look(self) -> None:
        """Count the operators that workers are inside of at this moment."""
        self._looks += 1
        for worker, seen in zip(self._workers, self._seen, strict=True):
            for index, instance in worker.instances.items():
                if instance.calling is not None:
                    seen[index] = seen.get(index, 0) + 1


def memory_bytes() -> int:
    """The memory that this process holds; 0 if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _operator(instance: Instance, seen: int) -> OperatorLoad:
    waiting = [batch.num_rows for _, _, batch in instance.inbox]
    return OperatorLoad(
        instance.index, len(waiting), sum(waiting), instance.rows_in, instance.rows_out, instance.calls, seen
    )
