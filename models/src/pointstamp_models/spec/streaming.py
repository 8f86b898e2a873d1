"""Streams, tasks and actions: the streaming model under stateful dataflow.

Veresov et al. 2024, section 4.1. A message is n s <e, d>: the number n on the stream s, and in epoch e either
an event or a border. Consuming a message does not remove it, because a stream may have several consumers: a
cursor N_p(s) says how far task p has read or written stream s, and only cursors and new messages change.

The section knows no epochs; they are here already because every message of every model above it has one.
What tasks do with their messages is not here: the rules are in ``pointstamp_models.spec.borders``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

Epoch: TypeAlias = int
Stream: TypeAlias = str
Value: TypeAlias = Any
"""The state of a task: hashable, and made of what a model's state may be made of."""
Event: TypeAlias = Any
Datum: TypeAlias = tuple[Any, ...]
"""``("EV", w)`` or ``BORDER``."""
Message: TypeAlias = tuple[Stream, int, Epoch, Datum]
"""n s <e, d>, the stream first so that sorting keeps streams together."""
Action: TypeAlias = tuple[str, Stream, Epoch, Datum]
"""``("+", s, e, d)`` produces <e, d> on stream s, ``("-", s, e, d)`` consumes it."""

BORDER: Final[Datum] = ("BD",)


@dataclass(frozen=True, slots=True)
class Task:
    """TK<f, S, o> with a name and a first value; f is pure and returns the next value and the outputs."""

    name: str
    f: Callable[[Value, Event], tuple[Value, tuple[Event, ...]]]
    inputs: tuple[Stream, ...]
    output: Stream
    initial: Value

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The domain of N_p: every stream on which the task has a cursor, its output last."""
        return (*self.inputs, self.output)


def message_set(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Equal sets of messages become equal tuples; the events of a stream need not be comparable."""
    return tuple(sorted(set(messages), key=lambda m: (*m[:3], repr(m[3]))))


def source_messages(inputs: Mapping[Stream, Sequence[Sequence[Event]]]) -> tuple[Message, ...]:
    """M0: each source stream shaped EV(1)* BD(1) EV(2)* BD(2) and so on, from its events by epoch."""
    messages: list[Message] = []
    for stream, epochs in inputs.items():
        numbers = count()
        for epoch, events in enumerate(epochs, start=1):
            messages += [(stream, next(numbers), epoch, ("EV", event)) for event in events]
            messages.append((stream, next(numbers), epoch, BORDER))
    return message_set(messages)


def by_stream(messages: Sequence[Message]) -> dict[Stream, list[Message]]:
    """M|s for every stream s that has messages, in the order of their numbers if M is a message set."""
    streams: dict[Stream, list[Message]] = {}
    for message in messages:
        streams.setdefault(message[0], []).append(message)
    return streams


def messages_of(
    actions: Sequence[Action], cursors: Mapping[Stream, int]
) -> tuple[list[Message], list[Message]]:
    """The messages that actions consume and produce, numbered from the cursors at which they start."""
    at = dict(cursors)
    touched: dict[str, list[Message]] = {"-": [], "+": []}
    for sign, stream, epoch, datum in actions:
        touched[sign].append((stream, at[stream], epoch, datum))
        at[stream] += 1
    return touched["-"], touched["+"]


def apply_actions(
    actions: Sequence[Action], cursors: Mapping[Stream, int], messages: tuple[Message, ...]
) -> tuple[dict[Stream, int], tuple[Message, ...]] | None:
    """X(N_p, M) of definition 4.1; None where a message to consume is not there.

    The definition goes from left to right, so an action might consume what an earlier one produced; every
    rule consumes before it produces, so here consumption looks at M alone.
    """
    consumed, produced = messages_of(actions, cursors)
    if not set(consumed) <= set(messages):
        return None
    moved = [stream for _, stream, _, _ in actions]
    after = {stream: n + moved.count(stream) for stream, n in cursors.items()}
    return after, message_set([*messages, *produced])
