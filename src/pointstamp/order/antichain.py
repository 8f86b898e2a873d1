"""Antichains: sets of pairwise incomparable elements, standing for everything at or above them.

A frontier is an antichain: "only times greater or equal to one of these may still come". Antichains are
ordered by that meaning: A <= B if every element of B lies at or above some element of A. The empty
antichain is therefore the greatest of all and means *complete*: nothing will come any more.

    >>> from pointstamp.order.partial import Naturals, Product
    >>> pairs = Product((Naturals(), Naturals()))
    >>> antichain = Antichain.of(pairs, [(0, 2), (1, 1), (1, 2)])
    >>> antichain.elements
    ((0, 2), (1, 1))
    >>> antichain.less_equal((0, 5)), antichain.less_equal((0, 1))
    (True, False)
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from pointstamp.order.partial import PartialOrder

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Antichain(Generic[T]):
    """A set of incomparable elements of one order; build it with ``Antichain.of``, which keeps the minima."""

    order: PartialOrder[T]
    elements: tuple[T, ...]

    @classmethod
    def of(cls, order: PartialOrder[T], elements: Iterable[T] = ()) -> "Antichain[T]":
        """Return the antichain of the minimal elements, sorted."""
        kept: list[T] = []
        # In a linear extension nothing that comes later lies below what came earlier.
        for element in sorted(set(elements), key=order.sort_key):
            if not any(order.less_equal(lower, element) for lower in kept):
                kept.append(element)
        return cls(order, tuple(kept))

    def less_equal(self, element: T) -> bool:
        """Return whether an element is at or above this antichain."""
        return any(self.order.less_equal(lower, element) for lower in self.elements)

    def less_than(self, element: T) -> bool:
        """Return whether an element is strictly above this antichain."""
        return self.less_equal(element) and element not in self.elements

    def dominates(self, other: "Antichain[T]") -> bool:
        """Return whether this antichain is at or below another one."""
        return all(self.less_equal(element) for element in other.elements)

    def insert(self, element: T) -> "Antichain[T]":
        """Return the antichain with one more element; self if it adds nothing."""
        if self.less_equal(element):
            return self
        return Antichain.of(self.order, (*self.elements, element))

    def meet(self, other: "Antichain[T]") -> "Antichain[T]":
        """Return the greatest antichain below both."""
        return Antichain.of(self.order, self.elements + other.elements)

    def __iter__(self) -> Iterator[T]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __contains__(self, element: object) -> bool:
        return element in self.elements

    def __eq__(self, other: object) -> bool:
        return set(self.elements) == set(other.elements) if isinstance(other, Antichain) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.elements))

    def __str__(self) -> str:
        return "{" + ", ".join(str(element) for element in self.elements) + "}"
