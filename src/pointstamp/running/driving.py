"""Drive a run from its inputs to its results."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.running.feeding import FeedableRun, Feeder


class Collector:
    """Gathers the finished tables of a run until their time is finished on all outputs."""

    def __init__(self, schemas: dict[str, pa.Schema]) -> None:
        self._schemas = schemas
        self._tables: dict[Any, dict[str, pa.Table]] = {}

    def on_result(self, output: str, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        """Keep the finished rows of one output."""
        self._tables.setdefault(time, {})[output] = table

    def take(self, time: Any) -> dict[str, pa.Table]:  # noqa: ANN401 - a root time
        """The tables of a time that is done; outputs without rows have an empty one."""
        found = self._tables.pop(time, {})
        return {name: found.get(name, schema.empty_table()) for name, schema in self._schemas.items()}

    def times(self) -> list[Any]:
        """The times that something has been gathered for."""
        return list(self._tables)


def drive(
    run: FeedableRun,
    feeder: Feeder,
    collector: Collector,
    *,
    reads_ahead: bool,
    after_step: Callable[[], None] | None = None,
) -> Iterator[tuple[Any, dict[str, pa.Table]]]:
    """Run to the end; yield each time with its tables as soon as it is complete.

    With ``reads_ahead`` inputs are read while the flow still works, which pays where it works elsewhere;
    without, all that can be finished is finished before an input is asked for more, which may take it long.
    ``after_step`` is called between steps, where a run can be asked how far it is.
    """
    sort_key = run.plan.root.sort_key
    # A time may be done before all inputs are fed: behind a delay, or where no output depends on one of them.
    # It is told once; those that could still be fed are remembered.
    told: set[Any] = set()
    while True:
        stepped = run.step()
        if after_step is not None:
            after_step()
        if not stepped or reads_ahead:
            # Times that a flow makes itself, by a delay, have results though nobody fed them.
            done = [t for t in {*feeder.fed, *collector.times()} if run.is_time_done(t)]
            for time in sorted(done, key=sort_key):
                if time in feeder.fed:
                    feeder.fed.remove(time)
                if time not in told:
                    told.add(time)
                    yield time, collector.take(time)
            told = {time for time in told if feeder.may_feed(time)}
        if stepped and not reads_ahead:
            continue
        if feeder.feed() or stepped:
            continue
        if feeder.is_finished and run.is_complete:
            return
        if not run.step():
            raise FlowError(run.describe_standstill())
