"""Custom operators in a plan: an object with methods, copied per worker."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from pointstamp.arrow.schema import as_schema
from pointstamp.errors import FlowError
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import Stream
from pointstamp.operators.context import Context
from pointstamp.operators.spec import OperatorSpec, Prototype
from pointstamp.state.declared import declares_state
from pointstamp.topology.summary import Summary, identity

# Protocols of custom operators, for type checkers.
#
# An operator has at least one of four methods, and may have all of them; each is a small protocol. Where it
# says itself what it sends, in an attribute ``outputs``, the type of that attribute decides what
# ``ps.operator`` gives: one stream for one schema, a tuple of streams for a mapping from names to schemas.
#
# Parameters are delivered by place, so they may have any names. What a type checker cannot see is a method
# that is misspelt beside one that is not; ``ps.operator`` itself refuses an object without any.

Declared = TypeVar("Declared", covariant=True)
D = TypeVar("D")

OneSchema: TypeAlias = str | pa.Schema
"""The schema of one output: Spark DDL, "src long, dst long", or pyarrow's."""

NamedSchemas: TypeAlias = Mapping[str, OneSchema]
"""The schemas of several outputs, by name."""


class Receives(Protocol):
    """An operator that receives batches."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch, /) -> None:  # noqa: A002
        """Handle a batch at the named input, at ``context.time``."""
        ...


class IsNotified(Protocol):
    """An operator that is notified when times are complete."""

    def on_notify(self, context: Context, /) -> None:
        """Handle the completion of the requested time ``context.time``."""
        ...


class WatchesFrontiers(Protocol):
    """An operator that is called whenever a frontier of its inputs has changed."""

    def on_frontier(self, context: Context, /) -> None:
        """Handle a change of an input's frontier."""
        ...


class Starts(Protocol):
    """An operator that is called before the first batch, for example to retain capabilities."""

    def on_start(self, context: Context, /) -> None:
        """Handle the start of the run, at the least time."""
        ...


class DeclaresOutputs(Protocol[Declared]):
    """An operator that says itself what it sends."""

    @property
    def outputs(self) -> Declared:
        """The schema of its output, or a mapping from the names of its outputs to their schemas."""
        ...


class DeclaresAndReceives(Receives, DeclaresOutputs[Declared], Protocol[Declared]):
    """``Receives`` with ``outputs``."""


class DeclaresAndIsNotified(IsNotified, DeclaresOutputs[Declared], Protocol[Declared]):
    """``IsNotified`` with ``outputs``."""


class DeclaresAndWatches(WatchesFrontiers, DeclaresOutputs[Declared], Protocol[Declared]):
    """``WatchesFrontiers`` with ``outputs``."""


class DeclaresAndStarts(Starts, DeclaresOutputs[Declared], Protocol[Declared]):
    """``Starts`` with ``outputs``."""


OperatorLike: TypeAlias = Receives | IsNotified | WatchesFrontiers | Starts
"""An operator: an object with at least one of the four methods."""

DeclaredOperator: TypeAlias = (
    DeclaresAndReceives[D] | DeclaresAndIsNotified[D] | DeclaresAndWatches[D] | DeclaresAndStarts[D]
)
"""An operator that says itself what it sends, in an attribute ``outputs`` of this type."""


def add_custom(
    name: str,
    logic: OperatorLike,
    inputs: Mapping[str, Stream],
    outputs: OneSchema | NamedSchemas | None,
    summaries: Mapping[tuple[str, str], Sequence[Summary]] | None,
) -> list[Stream]:
    """Add a custom operator; return its outputs.

    ``outputs`` and ``summaries`` may also be attributes of the object.
    """
    declared = outputs if outputs is not None else getattr(logic, "outputs", {})
    named = dict(declared) if isinstance(declared, Mapping) else {"out": declared}
    schemas = {output: as_schema(schema) for output, schema in named.items()}
    _check_methods(name, logic, schemas)
    given = summaries if summaries is not None else getattr(logic, "summaries", None)
    rounds = len(next(iter(inputs.values())).loops)
    return add_operator(
        name,
        OperatorSpec(logic) if isinstance(logic, type) else Prototype(logic),
        inputs,
        schemas,
        _numbered(name, given, list(inputs), list(schemas), rounds),
        given,
        in_order=_takes_times_in_order(name, logic),
    )


def _check_methods(name: str, logic: Any, schemas: Mapping[str, pa.Schema]) -> None:  # noqa: ANN401
    methods = ("on_start", "on_receive", "on_notify", "on_frontier")
    if not any(callable(getattr(logic, method, None)) for method in methods):
        raise FlowError(
            f"operator '{name}' is a {type(logic).__name__} without any of the methods "
            f"{', '.join(methods)}. Define one of them."
        )


def _takes_times_in_order(name: str, logic: Any) -> bool:  # noqa: ANN401
    said = getattr(logic, "takes_times_in_order", None)
    if said is None:
        return callable(getattr(logic, "on_notify", None)) and declares_state(logic)
    if not isinstance(said, bool):
        raise FlowError(
            f"operator '{name}' has takes_times_in_order = {said!r}, but it must be True or False. Set it to "
            "one of them, or leave it out."
        )
    return said


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
