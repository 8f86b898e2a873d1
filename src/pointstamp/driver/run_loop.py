"""Drive a run from its inputs to its results."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pointstamp.arrow.schema import ExtraColumns, input_batches
from pointstamp.driver.feeder import FeedableRun, Feeder, RunInput
from pointstamp.driver.status import RowCounts
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind, Plan


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


# Count the rows that enter and leave a run.
#
# Counting is done from outside, at the handles of the inputs and where results are delivered, so that a run
# that is not watched does not pay for it.


def count_rows(run: FeedableRun) -> RowCounts:
    """Count the rows of a run from now on; input handles that were taken before are not counted."""
    rows = RowCounts(dict.fromkeys(run.inputs, 0))
    for name, node in run.plan.named(NodeKind.INPUT).items():
        run.inputs[name] = _CountedInput(run.inputs[name], node.outputs[0].schema, rows, node.extra_columns)
    hand_over = run.on_result

    def counted(output: str, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        rows.finished[output] = rows.finished.get(output, 0) + table.num_rows
        if hand_over is not None:
            hand_over(output, time, table)

    run.on_result = counted
    return rows


class _CountedInput:
    """An input that counts what is sent, and leaves the rest to the one behind it."""

    def __init__(self, handle: RunInput, schema: pa.Schema, rows: RowCounts, extra: ExtraColumns) -> None:
        self._handle = handle
        self._extra: ExtraColumns = extra
        self._schema = schema
        self._rows = rows
        self.name = handle.name

    @property
    def time(self) -> Any:  # noqa: ANN401 - a root time
        return self._handle.time

    @property
    def is_closed(self) -> bool:
        return self._handle.is_closed

    def send(self, data: Any, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        if late:
            return self._handle.send(data, late=True)
        sent = 0
        for batch in input_batches(data, self._schema, f"input '{self.name}'", self._extra):
            sent += self._handle.send(batch)
            self._rows.sent[self.name] += batch.num_rows
        return sent

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        self._handle.advance_to(time)

    def close(self) -> None:
        self._handle.close()


# Separate the inputs of a call from its options.
#
# Inputs are a mapping by name, ``run({"orders": ...})``; a flow with one input takes its value itself,
# ``run(orders)``; and verbs such as ``run`` take inputs as keywords beside their own options. An input may
# have the name of an option, ``workers`` or ``output``; it is then given in the mapping, where every name is
# that of an input. A user who forgets that is told so, in place of an error about something else.
#
# Invariant: every name in the result was given once.


def given_inputs(
    plan: Plan,
    verb: Callable[..., Any],
    inputs: Any,  # noqa: ANN401 - a mapping, or anything that holds rows
    streams: Mapping[str, Any],
) -> dict[str, Any]:
    """All inputs by name; FlowError where one was given twice, or was taken for an option of the verb."""
    given = inputs if inputs is not None else {}
    if not isinstance(given, Mapping):
        names = list(plan.named(NodeKind.INPUT))
        if len(names) != 1:
            raise FlowError(
                f"flow '{plan.name}' has {len(names)} inputs, but {verb.__name__}() got a "
                f"{type(inputs).__name__} without a name. Give a mapping: {verb.__name__}({{'name': ...}})."
            )
        given = {names[0]: given}
    if twice := [name for name in streams if name in given]:
        raise FlowError(
            f"flow '{plan.name}': {verb.__name__}() got the input '{twice[0]}' twice, in the mapping and "
            "as a keyword. Remove one of them."
        )
    data = {**given, **streams}
    parameters = inspect.signature(verb).parameters.values()
    options = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    for name in plan.named(NodeKind.INPUT):
        if name in options and name not in data:
            raise FlowError(
                f"flow '{plan.name}' has an input '{name}', and '{name}' is also an option of "
                f"{verb.__name__}(). Give the input in the mapping: {verb.__name__}({{'{name}': ...}})."
            )
    return data
