"""End worker processes whose driver is on another machine and gone.

``faulthandler`` has a thread of its own that does not need Python's global lock. Each beat sets it back. If
native code holds the lock for too long, no beat follows: the thread writes the stack of every Python thread
to the standard error, where the user's function and line are found, and ends the process. Its run then sees a
lost worker, as after any other death.
"""

import faulthandler
import os
from typing import Final

_STANDARD_ERROR: Final = 2
# Spark sets it where it uses the one watchdog that a process has for itself.
_SPARKS_OWN: Final = "PYTHON_TRACEBACK_DUMP_INTERVAL_SECONDS"


class Watchdog:
    """Ends this process where it has not beaten for so long; for one worker of a process."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._is_ours = _SPARKS_OWN not in os.environ

    def beat(self) -> None:
        """Set the watchdog back."""
        if self._is_ours:
            faulthandler.dump_traceback_later(self._seconds_max, exit=True, file=_STANDARD_ERROR)

    def end(self) -> None:
        """Watch no more."""
        if self._is_ours:
            faulthandler.cancel_dump_traceback_later()
