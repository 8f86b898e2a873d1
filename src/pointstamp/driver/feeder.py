"""Feed a flow from the user's data, one epoch at a time, with flow control.

Item i of an input is epoch i, unless it has an epoch column or the flow has custom times, in
which case items are (time, rows) pairs. With an epoch column items come in order: a row of an earlier epoch
than the last of the item before is late, and its input says what becomes of it.

Flow control is here and nowhere else: as long as more than a number of epochs, or of bytes, are in flight
through the flow, no input is read. Inside, queues have no bounds, because a bounded channel in a loop can
deadlock; what is inside is bounded by what was let in.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.epoch_column import (
    EpochColumn,
    EventEpochs,
    LatePolicy,
    by_epoch,
    check_declared,
    late_rows,
    with_epochs,
)
from pointstamp.arrow.schema import ExtraColumns, check_asked, input_batches, names_of
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import EPOCHS, TimeOrder

EPOCHS_IN_FLIGHT_MAX: Final = 8
BYTES_IN_FLIGHT_MAX: Final = 128 * 1024 * 1024
"""Right for a process of 1 GiB: operators hold a few copies of what is in flight."""

OnResult: TypeAlias = Callable[[str, Any, pa.Table], None]
"""Takes a finished result: the output's name, its root time (the epoch), all its rows."""

EpochColumns: TypeAlias = str | Mapping[str, str] | None
Item: TypeAlias = tuple[Any, Any]
"""A root time and rows for it; or late rows, which come at that time."""

_log = logging.getLogger("pointstamp.run")


class RunInput(Protocol):
    """The handle of an input of a run that is fed by hand; ``run.input(name)`` returns it."""

    name: str

    @property
    def time(self) -> Any:  # noqa: ANN401 - a root time
        """The time at which rows are sent now."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the input is closed."""
        ...

    def send(self, data: Any, /, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return their size in bytes.

        Args:
            data: Rows: an Arrow batch or table, a pandas or polars frame, or a list of dictionaries.
            late (bool, default False): The rows are late: send them to the output of late rows.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     print(run.input("words").send([{"word": "so"}]) > 0)
            True

        """
        ...

    def advance_to(self, time: Any, /) -> None:  # noqa: ANN401 - a root time
        """Advance to a time: promise that no rows will be sent before it.

        Args:
            time: A root time, such as an epoch.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").advance_to(3)
            ...     print(run.input("words").time)
            3

        """
        ...

    def close(self) -> None:
        """Close the input: promise that no more rows will be sent.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").close()
            ...     print(run.input("words").is_closed)
            True

        """
        ...


class FeedableRun(Protocol):
    """A flow that runs somewhere and is driven from here."""

    plan: Plan
    inputs: dict[str, RunInput]
    on_result: OnResult | None

    def input(self, name: str, /) -> RunInput:
        """The handle of an input."""
        ...

    def step(self) -> bool:
        """Let the flow do something; False where it has nothing to do."""
        ...

    def is_time_done(self, time: Any, /) -> bool:  # noqa: ANN401 - a root time
        """Return whether nothing at or before this time is in flight."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether everything is done and nothing can come any more."""
        ...

    def describe_standstill(self) -> str:
        """Return what the flow waits for, as text."""
        ...

    def tracker(self) -> Tracker:
        """The progress of the flow as the first worker knows it; not to be changed."""
        ...


@dataclass(slots=True)
class FlowControl:
    """The limits of data in flight."""

    epochs_max: int = EPOCHS_IN_FLIGHT_MAX
    bytes_max: int = BYTES_IN_FLIGHT_MAX

    def __post_init__(self) -> None:
        if self.epochs_max < 1 or self.bytes_max < 1:
            raise FlowError(
                f"flow control needs room for at least one epoch and one byte, got {self.epochs_max} "
                f"epochs and {self.bytes_max} bytes. Raise both to 1 or more."
            )


class _Reader:
    """One input that is being read, with the time of what comes next."""

    def __init__(self, handle: RunInput, items: Iterator[Item], *, counts: bool) -> None:
        self._handle = handle
        self._items = items
        self._counts = counts
        self._following: Item | None = None
        self._next_epoch = 0
        self.is_exhausted = False

    def upcoming(self) -> tuple[Any] | None:
        """The time of the next item; None at the end. Where items are counted it is known without reading."""
        if self.is_exhausted:
            return None
        if self._counts:
            return (self._next_epoch,)
        if self._following is None:
            self._read()
        return None if self._following is None else (self._following[0],)

    def send(self) -> tuple[Any, int] | None:
        """Send the next item and promise what can be promised; return its time and bytes."""
        if self._following is None:
            self._read()
        if self._following is None:
            return None
        (time, rows), self._following = self._following, None
        self._handle.advance_to(time)
        late = isinstance(rows, LateItem)
        sent = self._handle.send(rows.rows if late else rows, late=late)
        if self._counts:
            # The next item is the next epoch: this one is complete before anybody reads on.
            self._next_epoch += 1
            self._handle.advance_to(self._next_epoch)
        else:
            later = self.upcoming()
            if later is not None:
                self._handle.advance_to(later[0])
        return time, sent

    def may_send(self, time: Any, order: TimeOrder[Any]) -> bool:  # noqa: ANN401 - a root time
        """Return whether an item of this time may still come."""
        return not self.is_exhausted and order.less_equal(self._handle.time, time)

    def _read(self) -> None:
        self._following = next(self._items, None)
        if self._following is None:
            self.is_exhausted = True
            self._handle.close()


# Input items with event time as epochs: rows ordered by the watermark.
#
# After each value that is read, everything before the greatest event time so far, less the lateness, is
# complete: these epochs are given, in order, and rows of them that come later are late. At the end of the
# input everything is.
#
# Invariant: the times of items never go back, and all rows of an epoch that are in time are in one item.


@dataclass(frozen=True, slots=True)
class LateItem:
    """Rows that are to go to the port for late rows of their input."""

    rows: Any


def by_event_time(
    who: str,
    values: Iterable[Any],
    epochs: EventEpochs,
    schema: pa.Schema,
    late: LatePolicy,
    extra: ExtraColumns = "warn",
) -> Iterator[tuple[int, Any]]:
    """Pairs of an epoch and its rows, in order; late ones as the policy says."""
    waiting: dict[int, list[pa.Table]] = {}
    complete = dropped = 0
    for value in values:
        table = pa.Table.from_batches(input_batches(value, schema, who, extra), schema)
        for epoch, rows in by_epoch(table, epochs, schema, who):
            if epoch >= complete:
                waiting.setdefault(epoch, []).append(rows)
            elif late == "output":
                yield complete, LateItem(late_rows(rows, epoch))
            elif late == "drop":
                dropped += rows.num_rows
            else:
                raise FlowError(
                    f"{who} has rows of epoch {epoch}, by their event time '{epochs.at}', after the "
                    f"watermark had reached epoch {complete}. Allow a greater lateness, or declare the "
                    "input with late='output' or late='drop'."
                )
        latest = pc.max(epochs.instants(table)).as_py()
        if latest is not None:
            complete = max(complete, epochs.complete_by(latest))
        for epoch in sorted(each for each in waiting if each < complete):
            yield epoch, pa.concat_tables(waiting.pop(epoch))
    for epoch in sorted(waiting):
        yield epoch, pa.concat_tables(waiting[epoch])
    if dropped:
        _log.warning("%s: %s rows arrived too late and were dropped", who, dropped)


@dataclass(slots=True)
class Feeder:
    """Feeds the inputs of a run; changed by ``feed`` alone."""

    run: FeedableRun
    readers: list[_Reader]
    control: FlowControl
    fed: list[Any] = field(default_factory=list)
    in_flight: dict[Any, int] = field(default_factory=dict)

    def feed(self) -> bool:
        """Send one item where there is room; False where there is no room or nothing left to send."""
        for time in [time for time in self.in_flight if self.run.is_time_done(time)]:
            del self.in_flight[time]
        waiting = [(time, reader) for reader in self.readers if (time := reader.upcoming()) is not None]
        if not waiting:
            return False
        sort_key = self.run.plan.root.sort_key
        (time,), reader = min(waiting, key=lambda each: sort_key(each[0][0]))
        if time not in self.in_flight and len(self.in_flight) >= self.control.epochs_max:
            return False
        if self.in_flight and sum(self.in_flight.values()) >= self.control.bytes_max:
            return False
        sent = reader.send()
        if sent is not None:
            self.in_flight[time] = self.in_flight.get(time, 0) + sent[1]
            if time not in self.fed:
                self.fed.append(time)
        return True

    def may_feed(self, time: Any) -> bool:  # noqa: ANN401 - a root time
        """Return whether some input may still have rows of this time."""
        return any(reader.may_send(time, self.run.plan.root) for reader in self.readers)

    @property
    def is_finished(self) -> bool:
        """Whether every input was read to its end and closed."""
        return all(reader.is_exhausted for reader in self.readers)


def feeder(
    run: FeedableRun,
    data: Mapping[str, Any],
    *,
    epoch: EpochColumns = None,
    control: FlowControl | None = None,
) -> Feeder:
    """Prepare to feed a run with a user's data, one value for each input of the flow."""
    plan = run.plan
    names = list(plan.named(NodeKind.INPUT))
    missing = [name for name in names if name not in data]
    unknown = [name for name in data if name not in names]
    if missing or unknown:
        raise FlowError(
            f"flow '{plan.name}' has the inputs {_listed(names)}"
            + (f"; missing: {_listed(missing)}" if missing else "")
            + (f"; unknown: {_listed(unknown)}" if unknown else "")
            + "."
        )
    columns = epoch_columns(plan, epoch)
    readers = []
    for name in names:
        counts = name not in columns and plan.root is EPOCHS
        items = items_of(plan, name, data[name], columns.get(name), plan.named(NodeKind.INPUT)[name].late)
        readers.append(_Reader(run.input(name), items, counts=counts))
    return Feeder(run, readers, control or FlowControl())


def epoch_columns(plan: Plan, epoch: EpochColumns) -> dict[str, EpochColumn]:
    """The epoch column of each input that has one; FlowError where they do not fit the flow."""
    inputs = plan.named(NodeKind.INPUT)
    declared = {name: node.event_epochs for name, node in inputs.items() if node.event_epochs is not None}
    if epoch is not None and not isinstance(epoch, str | Mapping):
        raise FlowError(
            f"flow '{plan.name}': epoch must be the name of a column, or a mapping from inputs to such "
            f"names, got {type(epoch).__name__} {epoch!r}. Write epoch='day' or epoch={{'input': 'day'}}."
        )
    if twice := [name for name in declared if not isinstance(epoch, str) and name in (epoch or {})]:
        raise FlowError(
            f"flow '{plan.name}': input '{twice[0]}' already has epochs of its event time "
            f"'{declared[twice[0]]}', so it cannot have an epoch column. Leave it out of epoch=."
        )
    given = dict.fromkeys(inputs, epoch) if isinstance(epoch, str) else dict(epoch or {})
    columns: dict[str, EpochColumn] = {**given, **declared}
    if unknown := [name for name in columns if name not in inputs]:
        raise FlowError(
            f"flow '{plan.name}': epoch= names {_listed(unknown)}, but the inputs are {_listed(inputs)}. "
            "Name one of these."
        )
    for name, column in columns.items():
        check_declared(inputs[name].outputs[0].schema, column, f"input '{name}'")
    return columns


def items_of(
    plan: Plan,
    name: str,
    value: Any,  # noqa: ANN401 - whatever came
    column: EpochColumn | None,
    late: LatePolicy = "error",
) -> Iterator[Item]:
    """A user's items for an input, as pairs of a root time and rows; late ones as the policy says."""
    node = plan.named(NodeKind.INPUT)[name]
    schema, extra = node.outputs[0].schema, node.extra_columns
    who = f"input '{name}'"
    if plan.root is not EPOCHS:
        return _timed_items(who, value)
    if isinstance(column, EventEpochs):
        return by_event_time(who, _epochs_of(who, value), column, schema, late, extra)
    if column is not None:
        return _by_column(who, value, column, schema, late, extra)
    return iter([(0, value)]) if _holds_rows(value) else _counted_items(who, value)


def _holds_rows(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value is rows itself, and not a sequence of epochs."""
    return isinstance(value, pa.RecordBatch | pa.Table) or hasattr(value, "__dataframe__")


def _epochs_of(who: str, value: Any) -> Iterable[Any]:  # noqa: ANN401
    return [value] if _holds_rows(value) else _epochs_in(who, value)


def _epochs_in(who: str, value: Any) -> Iterable[Any]:  # noqa: ANN401
    """A value that is to be a sequence of epochs; text and dictionaries have items, and are none."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise FlowError(
            f"{who} must be one table, or a list with the rows of each epoch, got {type(value).__name__}. "
            "For files of a folder, use start() with ps.io.files(path)."
        )
    return value


def _counted_items(who: str, value: Any) -> Iterator[Item]:  # noqa: ANN401
    for number, rows in enumerate(_epochs_in(who, value)):
        if isinstance(rows, dict):
            raise FlowError(
                f"{who}: item {number} must hold the rows of epoch {number}, got a single "
                "row. For one epoch of several rows, put their list into a list: [[{...}, {...}]]."
            )
        yield number, rows


def _timed_items(who: str, value: Any) -> Iterator[Item]:  # noqa: ANN401
    for item in _epochs_in(who, value):
        if not (isinstance(item, tuple) and len(item) == 2):
            raise FlowError(
                f"{who}: items must be (time, rows) pairs, because the flow has custom times, got "
                f"{type(item).__name__}. Write (time, rows)."
            )
        yield item


def _by_column(
    who: str,
    value: Any,  # noqa: ANN401 - whatever came
    column: str,
    schema: pa.Schema,
    late: LatePolicy,
    extra: ExtraColumns,
) -> Iterator[Item]:
    """Items by an epoch column; within a value, rows may be in any order."""
    timed = with_epochs(schema, column)
    values = _epochs_of(who, value)
    if isinstance(values, list | tuple):
        for each in values:  # before anything runs, where that can be known
            check_asked(names_of(each) or timed.names, timed, who)

    def pairs() -> Iterator[Item]:
        for each in values:
            table = pa.Table.from_batches(input_batches(each, timed, who, extra), timed)
            yield from by_epoch(table, column, schema, who)

    return _in_time(who, pairs(), late)


def _in_time(who: str, items: Iterable[Item], late: LatePolicy) -> Iterator[Item]:
    """The items; one of an epoch that has been left behind is late."""
    last = dropped = 0
    for time, rows in items:
        if time >= last:
            last = time
            yield time, rows
        elif late == "output":
            yield last, LateItem(late_rows(rows, time))
        elif late == "drop":
            dropped += rows.num_rows
        else:
            raise FlowError(
                f"{who} has rows of epoch {time} after rows of epoch {last}, but epochs must not "
                "decrease. Sort the data by epoch, give it as one table, or declare the input with "
                "late='output' or late='drop'."
            )
    if dropped:
        _log.warning("%s: %s rows arrived too late and were dropped", who, dropped)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
