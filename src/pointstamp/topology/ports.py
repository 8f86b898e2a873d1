"""Ports: the places in a graph at which times are counted.

An operator's output is a ``SourcePort`` of timestamped messages, its input a ``Target`` (the timely book,
"Dataflow Structure"). They are different types and never equal, so that one cannot be taken for the other.
"""

from dataclasses import dataclass
from typing import NewType, TypeAlias

OperatorIndex = NewType("OperatorIndex", int)
"""The position of an operator in its graph."""

Location = NewType("Location", int)
"""The position of a port in its graph's list of ports: what the inner loops use in place of a port."""


@dataclass(frozen=True, slots=True, order=True)
class SourcePort:
    """An output port of an operator."""

    operator: OperatorIndex
    port: int


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """An input port of an operator."""

    operator: OperatorIndex
    port: int


Port: TypeAlias = SourcePort | Target
