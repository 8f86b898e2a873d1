"""Partial orders, and the linear extensions that sorting needs.

A partial order is an object with two methods, kept apart from the times it orders: ``less_equal`` is the
partial order, ``sort_key`` a linear extension of it (``less_equal(a, b)`` and ``a != b`` imply
``sort_key(a) < sort_key(b)``). Python's own ``<`` on times is for sorting only and never means the
partial order: on tuples it is lexicographic, which calls (0, 9) smaller than (1, 0) although the two are
incomparable.

    >>> pairs = Product((Naturals(), Naturals()))
    >>> pairs.less_equal((0, 9), (1, 0)), pairs.less_equal((1, 0), (0, 9))
    (False, False)
    >>> pairs.sort_key((0, 9)) < pairs.sort_key((1, 0))
    True
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

T_contra = TypeVar("T_contra", contravariant=True, bound=Hashable)
T = TypeVar("T", bound=Hashable)


class PartialOrder(Protocol[T_contra]):
    """The order interface: reflexive, transitive, antisymmetric and sortable."""

    def less_equal(self, a: T_contra, b: T_contra, /) -> bool:
        """Return whether a <= b; False for incomparable elements."""
        ...

    def sort_key(self, element: T_contra, /) -> Any:  # noqa: ANN401 - anything that Python can sort
        """A key that sorts in a linear extension of the order."""
        ...


@runtime_checkable
class ChainedOrder(Protocol):
    """An order that can also name, for each element, a chain (a totally ordered subset) that it lies on.

    This is an optional speed-up: among the elements of one chain only the least can be minimal, so a
    frontier looks at one candidate per chain instead of at every element.
    """

    def chain(self, element: Any, /) -> Hashable:  # noqa: ANN401 - the element type of the order
        """The name of the chain; elements of equal chains must be comparable."""
        ...


@dataclass(frozen=True, slots=True)
class Naturals:
    """The integers in their usual order: one chain."""

    def less_equal(self, a: int, b: int, /) -> bool:
        """Return whether a <= b."""
        return a <= b

    def sort_key(self, element: int, /) -> int:
        """The integer itself."""
        return element

    def chain(self, element: int, /) -> Hashable:
        """All integers lie on one chain."""
        return None


def less_equal_2(a: tuple[Any, ...], b: tuple[Any, ...], /) -> bool:
    """Return whether both coordinates of a pair of numbers are less or equal to those of another.

    An order whose ``less_equal`` is this very function has pairs of numbers, and their own sort order.
    """
    return bool(a[0] <= b[0]) and bool(a[1] <= b[1])


@dataclass(frozen=True, slots=True)
class Product:
    """The product order of tuples, with one order per coordinate."""

    orders: tuple[PartialOrder[Any], ...]

    def less_equal(self, a: tuple[Any, ...], b: tuple[Any, ...], /) -> bool:
        """Return whether every coordinate of a is below the same coordinate of b."""
        return all(order.less_equal(x, y) for order, x, y in zip(self.orders, a, b, strict=True))

    def sort_key(self, element: tuple[Any, ...], /) -> tuple[Any, ...]:
        """Lexicographic in the coordinates' own keys, which extends the product order."""
        return tuple(order.sort_key(x) for order, x in zip(self.orders, element, strict=True))

    def chain(self, element: tuple[Any, ...], /) -> Hashable:
        """Elements that differ in the first coordinate only lie on one chain, if that coordinate's do."""
        first = self.orders[0]
        head = first.chain(element[0]) if isinstance(first, ChainedOrder) else element[0]
        return (head, element[1:])
