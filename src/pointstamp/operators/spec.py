"""Operators as data: a class and its arguments by name.

A plan has the spec of each operator, and each worker calls it to make its own. Whatever asks something of
an operator asks its spec, by the names of parameters.

>>> class Least:
...     def __init__(self, column: str, *, of: int = 1) -> None:
...         self.column, self.of = column, of
>>> found = spec(Least, "price", of=3)
>>> found.kind.__name__, dict(found.parameters), found().of
('Least', {'column': 'price', 'of': 3}, 3)
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """The class of an operator, and its parameters by name."""

    kind: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:  # noqa: ANN401 - operators have no common class
        """Return a separate operator."""
        return self.kind(**self.parameters)


@dataclass(frozen=True, slots=True)
class Prototype:
    """An object of the user that is an operator, of which each worker has a copy."""

    prototype: Any

    def __call__(self) -> Any:  # noqa: ANN401 - as above
        """Return a separate operator."""
        return copy.deepcopy(self.prototype)

    @property
    def kind(self) -> type:
        """Return the class of the object."""
        return type(self.prototype)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return nothing: what the object was made with is its own."""
        return {}


class Label(str):
    """A text that only says what something is called, in errors: nothing that is computed depends on it."""

    __slots__ = ()


def spec(kind: Callable[..., Any], *given: Any, **named: Any) -> OperatorSpec:  # noqa: ANN401 - parameters
    """Return the spec of an operator, given what its class is called with."""
    return OperatorSpec(kind, {**dict(zip(_names(kind), given, strict=False)), **named})


def spec_of(logic: Any) -> OperatorSpec | Prototype:  # noqa: ANN401 - a spec, or a class or a function
    """Return the spec of what makes an operator."""
    return logic if isinstance(logic, OperatorSpec | Prototype) else OperatorSpec(logic)


@cache
def _names(kind: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(signature(kind).parameters)
