"""Signatures of expression functions: arguments, types, result, properties.

A ``Function`` is looked up by name in a registry that the files of kernels fill. Its ``rule`` is asked
once, when a flow is built: from the types of the arguments it says as which types it takes them and which
type it gives. Its ``kernel`` is called for every batch with arrays (or scalars, where an argument is the
same for every row).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from pointstamp.errors import InternalError, SchemaError

Datum: TypeAlias = Any
"""An Arrow array, or a scalar that stands for as many equal values as there are rows."""

Kernel: TypeAlias = Callable[..., Datum]


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's arguments and of its result."""

    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    kernel: Kernel | None = None
    """Another kernel than the function's own, where the types ask for one."""
    can_fail: bool | None = None
    """Whether a value can raise, where the types decide; else the function does."""
    uses_zone: bool | None = None
    """Whether the value depends on the time zone, where the types decide; else the function says it."""


TypeRule: TypeAlias = Callable[[str, Sequence[pa.DataType], Mapping[str, Any]], Signature]
"""From what the function is called in errors, the types of its arguments, and its options."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function by name."""

    name: str
    rule: TypeRule
    kernel: Kernel
    arguments_min: int = 1
    arguments_max: int | None = 1
    can_fail: bool = True
    """Whether the kernel raises for some values, so that it must not see rows that do not ask for it."""
    is_strict: bool = True
    """Whether one argument that is null makes it null."""
    order: tuple[int, ...] | None = None
    """In which order the arguments are evaluated, if not from left to right."""
    uses_zone: bool = False
    """Whether its value depends on the time zone."""
    is_by_row: bool = False
    """Whether it is computed in Python, once for each different combination of arguments of a batch."""


_REGISTRY: dict[str, Function] = {}


def register(
    name: str,
    rule: TypeRule,
    kernel: Kernel,
    *,
    least: int = 1,
    most: int | None = 1,
    can_fail: bool = True,
    is_strict: bool = True,
    order: tuple[int, ...] | None = None,
    uses_zone: bool = False,
    is_by_row: bool = False,
) -> None:
    """Make a function known; each name once."""
    if name in _REGISTRY:
        raise InternalError(f"the function '{name}' is registered twice.")
    _REGISTRY[name] = Function(
        name, rule, kernel, least, most, can_fail, is_strict, order, uses_zone, is_by_row
    )


def function_of(name: str, arguments: int) -> Function:
    """The function of this name, if it takes so many arguments."""
    found = _REGISTRY.get(name)
    if found is None:
        raise SchemaError(f"unknown function '{name}'.")
    most = found.arguments_max
    if arguments < found.arguments_min or (most is not None and arguments > most):
        needed = f"{found.arguments_min}" if most == found.arguments_min else f"{found.arguments_min} or more"
        raise SchemaError(f"the function '{name}' takes {needed} arguments, got {arguments}.")
    return found


Evaluate: TypeAlias = Callable[[Any, Sequence[Datum]], Datum]
"""A function over elements: from the rows that they belong to, and the values of its parameters."""


@dataclass(frozen=True, slots=True)
class HigherOrderFunction:
    """A function that takes other functions, which are called for elements of its arguments."""

    name: str
    parameters: Callable[[str, Sequence[pa.DataType], int, int], Sequence[pa.DataType]]
    """The types of a function's parameters, from the types of the arguments before it, the place of the
    function among the functions, and how many parameters it names."""
    gives: Callable[[str, Sequence[pa.DataType], Sequence[pa.DataType]], pa.DataType]
    """The type of the result, from the types of the arguments and of what the functions give."""
    kernel: Callable[[Sequence[pa.Array], Sequence[Evaluate], pa.DataType], Datum]
    needs: Callable[[Sequence[pa.DataType]], Sequence[pa.DataType | None]] = lambda found: ()
    """The types that the functions must give, where there is one."""


_HIGHER_ORDER: dict[str, HigherOrderFunction] = {}


def register_higher_order(function: HigherOrderFunction) -> None:
    """Make a higher-order function known; each name once."""
    if function.name in _REGISTRY or function.name in _HIGHER_ORDER:
        raise InternalError(f"the function '{function.name}' is registered twice.")
    _HIGHER_ORDER[function.name] = function


def higher_order_function_of(name: str) -> HigherOrderFunction | None:
    """The higher-order function of this name, or None."""
    return _HIGHER_ORDER.get(name)


def is_by_row(name: str) -> bool:
    """Return whether a function is computed in Python, once for each different combination of arguments."""
    found = _REGISTRY.get(name)
    return found is not None and found.is_by_row


def known_functions() -> list[str]:
    """The names of all functions, sorted."""
    return sorted([*_REGISTRY, *_HIGHER_ORDER])


def takes(wanted: Callable[[pa.DataType], bool], words: str, gives: pa.DataType | None = None) -> TypeRule:
    """The rule of a function whose arguments are all of one kind; it gives that type, or always the same."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        for each in found:
            check(wanted(each) or pa.types.is_null(each), what, words, each)
        return Signature(tuple(found), found[0] if gives is None else gives)

    return rule


def check(holds: bool, what: str, needed: str, found: pa.DataType) -> None:
    """Refuse an argument of another type than is needed."""
    if not holds:
        raise SchemaError(f"{what} needs {needed}, got {found}. Cast it first.")
