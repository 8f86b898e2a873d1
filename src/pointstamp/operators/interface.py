"""The optional methods and attributes of an operator, each declared as a small protocol.

An operator is a plain object. It has at least one of the four methods of ``OperatorLike`` and may have any of
the others; what it does not have, has the default that its protocol says. Nothing else is ever asked for.

``RunsInChain`` and ``PassesOn`` are not protocols: an operator is one of these only if it says so.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from pointstamp.operators.context import Context

# Parameters are handed over by place, so they may have any names.


@runtime_checkable
class Receives(Protocol):
    """An operator that wants the batches that arrive."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch, /) -> None:  # noqa: A002
        """A batch has arrived at the named input, at ``context.time``."""
        ...


@runtime_checkable
class IsNotified(Protocol):
    """An operator that asks to be told when times are complete."""

    def on_notify(self, context: Context, /) -> None:
        """The time that was asked for, ``context.time``, is complete."""
        ...


@runtime_checkable
class WatchesFrontiers(Protocol):
    """An operator that wants to know whenever what may still arrive has changed."""

    def on_frontier(self, context: Context, /) -> None:
        """The frontier of some input has moved."""
        ...


@runtime_checkable
class Starts(Protocol):
    """An operator that does something before anything arrives, or keeps its first capabilities."""

    def on_start(self, context: Context, /) -> None:
        """The run begins, at the least time of all."""
        ...


OperatorLike: TypeAlias = Receives | IsNotified | WatchesFrontiers | Starts
"""An operator: an object with at least one of the four methods."""


@runtime_checkable
class IsRestored(Protocol):
    """An operator that does something after its state was restored; default: nothing."""

    def on_restore(self, context: Context, /) -> None:
        """The state is what was saved."""
        ...


@runtime_checkable
class TakesTimes(Protocol):
    """An operator that says whether it is notified of one time after the other.

    Default: it is, if it has ``on_notify`` and declares state.
    """

    @property
    def takes_times_in_order(self) -> bool:
        """Whether it is."""
        ...


@runtime_checkable
class DeclaresSummaries(Protocol):
    """An operator that says what it does to times; default: nothing."""

    @property
    def summaries(self) -> Any:  # noqa: ANN401 - checked where the operator is added
        """The summaries by the names of an input and an output."""
        ...


@runtime_checkable
class SaysWhatItSends(Protocol):
    """An operator that declares its outputs; default: it has none."""

    @property
    def outputs(self) -> Any:  # noqa: ANN401 - one schema, or a mapping from names to schemas
        """The schema of its output, or a mapping from the names of its outputs to their schemas."""
        ...


@runtime_checkable
class Saves(Protocol):
    """One half of what has state of its own (``pointstamp.state.pieces``)."""

    def save(self, *, changes_only: bool) -> Any:  # noqa: ANN401 - pieces
        """Return the pieces of the state."""
        ...


@runtime_checkable
class Restores(Protocol):
    """The other half."""

    def restore(self, context: Context, pieces: Mapping[str, pa.Table], /) -> None:
        """Continue with what was saved."""
        ...


@runtime_checkable
class DeclaresState(Protocol):
    """An operator that may declare its state, as a mapping from attributes; default: it has none."""

    @property
    def state(self) -> Any:  # noqa: ANN401 - an attribute of this name may be anything
        """The declaration, or something of the operator's own."""
        ...


# What only operators of ours have.


@runtime_checkable
class SharesState(Protocol):
    """An operator that keeps what others of its worker keep, too, in one place with them."""

    def share_with(self, others: dict[Any, Any], /) -> None:
        """Take what others keep, and leave there what this one keeps."""
        ...


@runtime_checkable
class SeesEventTime(Protocol):
    """An operator that knows the greatest event time that has come."""

    @property
    def event_time_latest(self) -> int | None:
        """The greatest event time; None before the first."""
        ...


@runtime_checkable
class CountsLateRows(Protocol):
    """An operator that drops late rows, or sends them elsewhere."""

    @property
    def rows_late(self) -> int:
        """The number of late rows, as of the last snapshot."""
        ...


@runtime_checkable
class DescribesState(Protocol):
    """A class of operators that says what they keep and what a change costs, as ``describe`` shows it."""

    @property
    def keeps(self) -> str:
        """The text."""
        ...


class RunsInChain:
    """An operator that sends what it makes of a batch at once, and keeps nothing: see ``flow.plan``."""

    __slots__ = ()


class PassesOn:
    """An operator that sends the changes that it is given, as they are."""

    __slots__ = ()
