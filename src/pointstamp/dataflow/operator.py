"""Operators of one's own: any number of inputs and outputs, in Naiad's style or in timely's.

An operator is a plain object. It has an ``outputs`` attribute, the schema of its output or a mapping from
names to schemas, and any of these methods:

- ``on_start(context)``: once, before anything else, at the least time of all;
- ``on_receive(context, input, batch)``: a batch has arrived, ``context.time`` is its time;
- ``on_notify(context)``: ``context.time``, for which it asked, is complete;
- ``on_frontier(context)``: what may still arrive at some input has changed.

Where times do not come out as they went in, it declares ``summaries``, from (input, output) to what happens
between them; an empty tuple says that nothing gets from there to there. The object is a prototype: every
worker works with a copy of its own.

What an operator keeps from one epoch to the next is its state, and it says so, because queries save it: an
attribute ``state`` names the attributes that hold it and how each is saved (``pointstamp.saved``), or it has
the methods ``save`` and ``restore`` (``pointstamp.Piece``). ``on_restore(context)`` is called when it goes on
from a snapshot; capabilities that it held come back by ``context.regained()``. What is not declared is lost
in a failure.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from pointstamp.dataflow.context import Context
from pointstamp.dataflow.schema import as_schema
from pointstamp.dataflow.stream import Stream, add_operator
from pointstamp.errors import FlowError
from pointstamp.topology.summary import Summary, identity


@runtime_checkable
class Receives(Protocol):
    """An operator that wants the batches that arrive."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """A batch has arrived at the named input, at ``context.time``."""
        ...


@runtime_checkable
class IsNotified(Protocol):
    """An operator that asks to be told when times are complete."""

    def on_notify(self, context: Context) -> None:
        """The time that was asked for, ``context.time``, is complete."""
        ...


@runtime_checkable
class WatchesFrontiers(Protocol):
    """An operator that wants to know whenever what may still arrive has changed."""

    def on_frontier(self, context: Context) -> None:
        """The frontier of some input has moved."""
        ...


@runtime_checkable
class Starts(Protocol):
    """An operator that does something before anything arrives, or keeps its first capabilities."""

    def on_start(self, context: Context) -> None:
        """The run begins, at the least time of all."""
        ...


def operator(
    name: str,
    logic: Any,  # noqa: ANN401 - a plain object with any of the methods above
    *,
    outputs: str | pa.Schema | Mapping[str, str | pa.Schema] | None = None,
    summaries: Mapping[tuple[str, str], Sequence[Summary]] | None = None,
    **inputs: Stream,
) -> Any:  # noqa: ANN401 - one stream, or a tuple of them
    """Add an operator of one's own; return its output stream, or a tuple of them if it has several.

    Inputs are given by name. ``outputs`` and ``summaries`` may also be attributes of the object.
    """
    if not inputs:
        raise FlowError(
            f"operator '{name}' needs at least one input stream, by name: operator(..., words=stream)."
        )
    declared = outputs if outputs is not None else getattr(logic, "outputs", {})
    named = dict(declared) if isinstance(declared, Mapping) else {"out": declared}
    schemas = {output: as_schema(schema) for output, schema in named.items()}
    _check_methods(name, logic, schemas)
    given = summaries if summaries is not None else getattr(logic, "summaries", None)
    rounds = len(next(iter(inputs.values())).scope)
    factory: Callable[[], Any] = logic if isinstance(logic, type) else partial(copy.deepcopy, logic)
    numbered = _numbered(name, given, list(inputs), list(schemas), rounds)
    streams = add_operator(name, factory, inputs, schemas, numbered, given)
    return streams[0] if len(streams) == 1 else tuple(streams)


def _check_methods(name: str, logic: Any, schemas: Mapping[str, pa.Schema]) -> None:  # noqa: ANN401
    methods = ("on_start", "on_receive", "on_notify", "on_frontier")
    if not any(callable(getattr(logic, method, None)) for method in methods):
        raise FlowError(
            f"operator '{name}' is a {type(logic).__name__} without any of {', '.join(methods)}, so it would "
            "never do anything."
        )


def _numbered(
    name: str,
    given: Mapping[tuple[str, str], Sequence[Summary]] | None,
    inputs: list[str],
    outputs: list[str],
    rounds: int,
) -> dict[tuple[int, int], tuple[Summary, ...]] | None:
    """Summaries by number; pairs that are not mentioned are the identity."""
    if given is None:
        return None
    for input_name, output_name in given:
        if input_name not in inputs or output_name not in outputs:
            raise FlowError(
                f"operator '{name}' declares a summary from '{input_name}' to '{output_name}'; it has the "
                f"inputs {inputs} and the outputs {outputs}."
            )
    return {
        (i, o): tuple(given.get((input_name, output_name), (identity(rounds),)))
        for i, input_name in enumerate(inputs)
        for o, output_name in enumerate(outputs)
    }
