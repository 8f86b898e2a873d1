"""Epochs that are event time: the interval in which a row lies.

Then completion is the passing of event time. A window is over when its last epoch is complete, so no operator
has to wait for a bound, and nothing is kept: a row is sent ahead to the epoch in which it is wanted.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.arrow.epoch_column import EventEpochs
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import Compiled, compile_expression
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.time_windows import Span, event_time_type, integers_of, span_of
from pointstamp.expressions.tree import Expression
from pointstamp.flow.outlet import AnOutlet, add_operator, wiring
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.flow.updates import Passes
from pointstamp.flow.watermarks import above
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec


@dataclass(frozen=True, slots=True)
class EventTime:
    """Epochs that are event time; made by ``ps.by_event_time``."""

    at: str
    every: Span
    lateness: Span
    idle: str | timedelta | None = None


def by_event_time(at: str, every: Span, *, lateness: Span, idle: str | timedelta | None = None) -> EventTime:
    """Return epochs that are event time, for ``flow.stream_input(name, schema, epochs=...)``.

    The input advances by itself: a row declares that all rows that are earlier by more than the lateness have
    arrived.

    Args:
        at: A column of timestamps, dates or integers.
        every: The length of an epoch.
        lateness: The allowed lateness.
        idle (str | timedelta, default None): An input without rows holds event time back for all inputs. With
            ``idle="30 seconds"`` it does so no longer once a query has received nothing from it for that
            time, until a row arrives. Rows that are behind the others by then are late.

    Examples:
        >>> flow = ps.Dataflow("seconds")
        >>> epochs = ps.by_event_time("at", 10, lateness=0)
        >>> flow.output("out", flow.stream_input("clicks", "at long", epochs=epochs).agg(n=ps.count()))
        >>> flow.run(clicks=[[{"at": 3}, {"at": 8}, {"at": 12}]])["out"].table().to_pylist()
        [{'epoch': 0, 'n': 2}, {'epoch': 1, 'n': 1}]

    """
    return EventTime(at, every, lateness, idle)


def event_epochs(plan: Plan, name: str, schema: pa.Schema, said: EventTime) -> EventEpochs:
    """The epochs of an input; an error names what does not fit the columns, or the other inputs."""
    who = f"input '{name}', epochs=,"
    if not isinstance(said, EventTime):
        raise FlowError(
            f"{who} needs ps.by_event_time('at', every='1 second', lateness='3 seconds'), got {said!r}. "
            "Name a column of epochs when the flow runs: run(..., epoch='day')."
        )
    check_columns(who, schema, [said.at])
    found = schema.field(said.at).type
    kind = event_time_type(f"{who} of '{said.at}',", found)
    every = span_of(f"{who} every", found, said.every)
    lateness = span_of(f"{who} lateness", found, said.lateness)
    if every < 1 or lateness < 0:
        raise FlowError(f"{who} needs every= above 0 and a lateness of 0 or more, got {said}.")
    for other, node in plan.named(NodeKind.INPUT).items():
        known = node.event_epochs
        if known is not None and (known.kind, known.every) != (kind, every):
            raise FlowError(
                f"{who} has epochs of {every} {kind}, but input '{other}' has epochs of {known.every} "
                f"{known.kind}. Give all inputs of a flow the same."
            )
    return EventEpochs(said.at, kind, every, lateness)


def epochs_above(stream: AnOutlet) -> EventEpochs | None:
    """The event time that the epochs of a stream are: that of every input that it is made of, if they are."""
    builder = wiring(stream).builder
    indices = above(builder, wiring(stream).source.operator)
    inputs = [node for index in indices if (node := builder.plan.nodes[index]).kind is NodeKind.INPUT]
    found = [node.event_epochs for node in inputs]
    return found[0] if found and all(each is not None for each in found) else None


def sent_ahead(stream: AnOutlet, when: Expression, epochs: EventEpochs, name: str) -> AnOutlet:
    """Each row in the epoch after which everything before the time that it says has come."""
    who = f"'{name}' of {stream}"
    compiled = compile_expression(when, stream.schema, who)
    if event_time_type(f"{who}: {when}", compiled.type) != epochs.kind:
        raise SchemaError(
            f"{who}: {when} is {compiled.type}, but epochs are intervals of {epochs.kind}; both must have "
            "the same type."
        )
    logic = spec(ToLaterEpochs, compiled, epochs.every)
    return add_operator(name, logic, {"in": stream}, {"out": stream.schema}, sends=Passes.ROWS)[0]


class ToLaterEpochs:
    """Sends each row at the last epoch that has something before the time that it says, and keeps nothing."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, when: Compiled, every: int) -> None:
        self._when = when
        self._every = every

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows for each epoch; one that would be over already, now."""
        until = integers_of(self._when(batch))
        there = np.flatnonzero(np.asarray(until.is_valid()))
        last = np.floor_divide(until.take(pa.array(there)).to_numpy() - 1, self._every)
        epochs = np.maximum(last, context.epoch)
        for epoch in np.unique(epochs).tolist():
            rows = batch.take(pa.array(there[epochs == epoch]))
            context.send(rows, at=(epoch, *context.time[1:]))
