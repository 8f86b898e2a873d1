"""Queries in processes that can be killed: what they write outlives them, and each commit can be an occasion.

As a program, ``python victims.py FOLDER``, it is a driver that prints a line for each commit, until it is
killed or done.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import pointstamp as ps
from connectors.sqlite_sink import SqliteSink
from pointstamp.connectors.memory import Rows as MemoryRows
from pointstamp.connectors.source import Part, Position, Unit
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Storage
from support.recoverables import FLOWS, Published, Rows, rows_of

# Nobody is taken for dead who only waits for the machine; a test that stops a process chooses a shorter one.
SILENCE_SECONDS_MAX = 120.0
EPOCHS = 24
# So many epochs are on their way at most, and no commit has more: otherwise the machine would decide how many
# commits there are, and whether one of a number is the last.
EPOCHS_AHEAD = 2


@dataclass(frozen=True)
class WatchedSink(SqliteSink):
    """Calls a function after each commit, in the driver: the function does not travel to the workers."""

    on_commit: Callable[[int], None] | None = None

    def __reduce__(self) -> Any:  # noqa: ANN401
        return SqliteSink, (self.path,)

    def publish(self, number: int, epochs_through: int, staged: Any) -> None:  # noqa: ANN401
        super().publish(number, epochs_through, staged)
        if self.on_commit is not None:
            self.on_commit(number)

    def while_nobody_writes(self, act: Callable[[], None]) -> None:
        """Do something while no other process holds the lock of the file, which it might hold for ever."""
        self._at_once(lambda _: act())

    def rows(self) -> Published:
        """What is published, by output and epoch."""
        found: Published = {}

        def read(db: Any) -> None:  # noqa: ANN401
            for token, epoch, row in db.execute("SELECT token, epoch, row FROM published"):
                values = tuple(ast.literal_eval(row).values())
                found.setdefault((token.split("/")[0], epoch), []).append(values)

        self._at_once(read)
        return {place: sorted(rows) for place, rows in found.items()}


@dataclass(frozen=True)
class Paced:
    """Rows at hand of which no unit comes before those well before it are committed.

    The driver alone paces; a worker, which only reads, gets the rows.
    """

    inner: MemoryRows
    committed_epoch: Callable[[], int]
    units_per_tick: int | None = 1

    def __reduce__(self) -> Any:  # noqa: ANN401
        return MemoryRows, (self.inner.batches,)

    def watch(self, position: Position, *, available_now: bool = False) -> "PacedWatch":
        return PacedWatch(self.inner.watch(position).poll(), self.committed_epoch)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.inner.read(part, schema)

    def after(self, position: Position, unit: Unit) -> Position:
        return self.inner.after(position, unit)

    def describe(self) -> str:
        return self.inner.describe()


@dataclass
class PacedWatch:
    """Gives units as far as commits have come; lives in the driver."""

    units: list[Unit]
    committed_epoch: Callable[[], int]

    def poll(self) -> list[Unit]:
        last = self.committed_epoch() + EPOCHS_AHEAD
        given = [unit for unit in self.units if int(unit.parts[0].locator) <= last]
        self.units = self.units[len(given) :]
        return given

    def fileno(self) -> None:
        return None

    @property
    def is_finished(self) -> bool:
        return not self.units

    def close(self) -> None:
        """Nothing is held."""


class Victim:
    """A query in processes, in a folder."""

    def __init__(
        self,
        folder: Path,
        flow: ps.Dataflow,
        data: list[Rows],
        *,
        storage: Storage | None = None,
        workers: int = 2,
        restarts: RestartPolicy | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        on_commit: Callable[["Victim", int], None] | None = None,
    ) -> None:
        hook = None if on_commit is None else (lambda number: on_commit(self, number))
        self.sink = WatchedSink(str(folder / "output.sqlite"), on_commit=hook)
        self.launcher = ProcessLauncher(silence_seconds_max=silence_seconds_max)
        sources = {name: self._paced(tuple(each[name] for each in data)) for name in data[0]}
        spec = QuerySpec(
            flow.plan,
            sources,
            self.sink,
            storage or LocalStorage(folder / "checkpoint"),
            workers,
            "query",
            SnapshotPolicy(epochs=1, inline_bytes_max=0),
            restarts or RestartPolicy(restarts_max=5, pause_seconds=0.0),
            epochs_max=EPOCHS_AHEAD,
        )
        self.supervisor = Supervisor(spec, self.launcher)

    def _paced(self, batches: tuple[pa.RecordBatch, ...]) -> Paced:
        return Paced(MemoryRows(batches), lambda: self.supervisor.committed_epoch)

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that are at work now."""
        assert self.launcher.crew is not None
        return self.launcher.crew.pids

    def run(self) -> "Victim":
        """Run it in this thread to its end."""
        self.supervisor.run()
        return self


def flow_and_data(name: str = "components") -> tuple[ps.Dataflow, list[Rows]]:
    """The same in every process."""
    flow = FLOWS[name]()
    return flow, rows_of(flow, EPOCHS, seed=12)


if __name__ == "__main__":
    pa.set_cpu_count(1)

    def say(_: Victim, number: int) -> None:
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()

    Victim(Path(sys.argv[1]), *flow_and_data(), on_commit=say).run()
