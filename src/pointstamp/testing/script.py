"""A scripted source: rows, pauses, the end and aborts in a given order.

Each group of rows is one unit: with one unit per tick, the default, it is one epoch. Between them stand
commands: at PAUSE nothing comes until ``go_on`` is called, at END the source is finished until then, and at
ABORT the query fails, once, as by a crash: what was not committed is lost, and a query that is started again
with the same source and checkpoint continues behind it. Whether what came before an ABORT was published is
open, as it is in a crash; with PAUSE before it, a test decides.

The script stays with the driver, and workers get the rows alone. Position and units are numbers of groups.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pointstamp.arrow.schema import fit
from pointstamp.connectors.source import Part, Position, SourceBase, Unit, WatchBase

Group: TypeAlias = pa.RecordBatch | Sequence[Mapping[str, Any]]


class ScriptCommand(Enum):
    """The commands of a script, besides rows."""

    PAUSE = "pause"
    END = "end"
    ABORT = "abort"


PAUSE: Final = ScriptCommand.PAUSE
"""Nothing comes until ``go_on``."""

END: Final = ScriptCommand.END
"""The source is finished, unless ``go_on`` was called before."""

ABORT: Final = ScriptCommand.ABORT
"""The query fails here, once."""


class ScriptAbortedError(RuntimeError):
    """A script has reached its ABORT."""


class ScriptedSource(SourceBase):
    """Rows and commands in the order of a script; at its end the source is finished.

    >>> source = ScriptedSource([{"x": 1}], PAUSE, [{"x": 2}])
    >>> watch = source.watch(None)
    >>> [unit.name for unit in watch.poll()], watch.poll()
    (['0'], [])
    >>> source.go_on()
    >>> [unit.name for unit in watch.poll()], watch.is_finished
    (['1'], True)
    """

    units_per_tick: int | None

    def __init__(self, *steps: Group | ScriptCommand, units_per_tick: int | None = 1) -> None:
        self.units_per_tick = units_per_tick
        self._steps = steps
        self._groups = [step for step in steps if not isinstance(step, ScriptCommand)]
        self._passed: set[int] = set()  # the commands that hold nothing back any more
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:  # noqa: ANN401 - as pickle wants it
        # What a worker has of it is rows, and no command.
        return partial(ScriptedSource, units_per_tick=self.units_per_tick), tuple(self._groups)

    def go_on(self) -> None:
        """Release the next PAUSE or END of the script."""
        with self._lock:
            for index, step in enumerate(self._steps):
                if step in (PAUSE, END) and index not in self._passed:
                    self._passed.add(index)
                    return
        raise ValueError("go_on(): the script has no PAUSE or END left. Call it once for each.")

    def watch(self, position: Position, *, available_now: bool = False) -> "ScriptWatch":
        """Watch from the group after a position; ``available_now`` treats a PAUSE as the END."""
        return ScriptWatch(self, 0 if position is None else position, ends_at_pause=available_now)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows of a group."""
        group = self._groups[int(part.locator)]
        if isinstance(group, pa.RecordBatch):
            yield fit(group, schema, f"group {part.locator} of a script")
        else:
            yield pa.RecordBatch.from_pylist([dict(row) for row in group], schema=schema)

    def after(self, position: Position, unit: Unit) -> int:
        """Return the number of groups read."""
        return int(unit.name) + 1

    def describe(self) -> str:
        """Return a description for messages."""
        return f"a script of {len(self._steps)} steps"

    def _next(self, taken: int) -> Unit | ScriptCommand | None:
        """The next step after so many groups: a unit, a command that holds, or the end."""
        with self._lock:
            given = 0
            for index, step in enumerate(self._steps):
                if not isinstance(step, ScriptCommand):
                    if given == taken:
                        return Unit(str(given), (Part(str(given), len(step)),))
                    given += 1
                elif given == taken and index not in self._passed:
                    if step is ABORT:
                        self._passed.add(index)
                    return step
            return None


class ScriptWatch(WatchBase):
    """The watch of a script, which a driver holds."""

    is_finished: bool

    def __init__(self, source: ScriptedSource, taken: int, *, ends_at_pause: bool) -> None:
        self._source = source
        self._taken = taken
        self._ends_at_pause = ends_at_pause
        self.is_finished = False

    def poll(self) -> list[Unit]:
        """The groups up to the next command that holds; ScriptAbortedError where that is ABORT."""
        units: list[Unit] = []
        while isinstance(step := self._source._next(self._taken), Unit):  # noqa: SLF001 - of this file
            units.append(step)
            self._taken += 1
        if step is ABORT:
            raise ScriptAbortedError(f"the script aborts after group {self._taken - 1}, as requested.")
        self.is_finished = step in (None, END) or (self._ends_at_pause and step is PAUSE)
        return units

    def fileno(self) -> None:
        """None: polling is the only way to know."""
        return

    def waits_for(self) -> str:
        """The text of the status while the query is paused."""
        return "go_on() of its script"

    def close(self) -> None:
        """Nothing is held."""
