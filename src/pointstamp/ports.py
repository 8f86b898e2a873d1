"""Protocols for sources, sinks, operators, aggregates and stores that users write."""

from pointstamp.connectors.sink import Compactor, Publisher, Sink, Staged, Writer
from pointstamp.connectors.source import Part, Source, Unit, Watch
from pointstamp.flow.custom_operator import DeclaredOperator
from pointstamp.operators.context import Context, SendSession
from pointstamp.operators.interface import IsNotified, OperatorLike, Receives, Starts, WatchesFrontiers
from pointstamp.operators.stateless import Row
from pointstamp.reduce.aggregate import Accumulator
from pointstamp.state import saved
from pointstamp.state.pieces import Piece, Stateful
from pointstamp.storage.port import Storage

__all__ = [
    "Accumulator",
    "Compactor",
    "Context",
    "DeclaredOperator",
    "IsNotified",
    "OperatorLike",
    "Part",
    "Piece",
    "Publisher",
    "Receives",
    "Row",
    "SendSession",
    "Sink",
    "Source",
    "Staged",
    "Starts",
    "Stateful",
    "Storage",
    "Unit",
    "Watch",
    "WatchesFrontiers",
    "Writer",
    "saved",
]
