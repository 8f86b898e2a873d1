"""Protocols of custom operators, for type checkers.

An operator has at least one of four methods, and may have all of them; each is a small protocol. Where it
says itself what it sends, in an attribute ``outputs``, the type of that attribute decides what
``ps.operator`` gives: one stream for one schema, a tuple of streams for a mapping from names to schemas.

Parameters are handed over by place, so they may have any names. What a type checker cannot see is a method
that is misspelt beside one that is not; ``ps.operator`` itself refuses an object without any.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from pointstamp.operators.context import Context

Declared = TypeVar("Declared", covariant=True)
D = TypeVar("D")

OneSchema: TypeAlias = str | pa.Schema
"""The schema of one output: Spark DDL, "src long, dst long", or pyarrow's."""

NamedSchemas: TypeAlias = Mapping[str, OneSchema]
"""The schemas of several outputs, by name."""


class Receives(Protocol):
    """An operator that wants the batches that arrive."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch, /) -> None:  # noqa: A002
        """A batch has arrived at the named input, at ``context.time``."""
        ...


class IsNotified(Protocol):
    """An operator that asks to be told when times are complete."""

    def on_notify(self, context: Context, /) -> None:
        """The time that was asked for, ``context.time``, is complete."""
        ...


class WatchesFrontiers(Protocol):
    """An operator that wants to know whenever what may still arrive has changed."""

    def on_frontier(self, context: Context, /) -> None:
        """The frontier of some input has moved."""
        ...


class Starts(Protocol):
    """An operator that does something before anything arrives, or keeps its first capabilities."""

    def on_start(self, context: Context, /) -> None:
        """The run begins, at the least time of all."""
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
