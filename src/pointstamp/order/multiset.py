"""Signed multisets: finite maps from items to non-zero integers, a group under addition.

The papers write ZM[X]. Counts may be negative, because reports of changes overtake one another; a count
of zero is never stored, so that equal multisets are equal as values and empty means empty.

    >>> moved = SignedMultiset({"a": -1, "b": 1})
    >>> moved + SignedMultiset({"a": 1})
    SignedMultiset({'b': 1})
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Item: TypeAlias = Any
"""Anything that can be a key. The class is not generic: one with a base cannot be compiled safely."""


class SignedMultiset:
    """A multiset with counts in the integers; ``add`` changes it in place, the operators make new ones."""

    __slots__ = ("_counts",)
    __hash__ = None  # type: ignore[assignment] # it changes, so it must not be a key

    def __init__(self, counts: Mapping[Item, int] | Iterable[tuple[Item, int]] = ()) -> None:
        self._counts: dict[Item, int] = {}
        for item, count in counts.items() if isinstance(counts, Mapping) else counts:
            self.add(item, count)

    def add(self, item: Item, count: int) -> int:
        """Add to the count of one item and return its new count."""
        total = self._counts.get(item, 0) + count
        if total:
            self._counts[item] = total
        else:
            self._counts.pop(item, None)
        return total

    def extend(self, changes: Iterable[tuple[Item, int]]) -> None:
        """Add many (item, count) pairs."""
        for item, count in changes:
            self.add(item, count)

    def drain(self) -> list[tuple[Item, int]]:
        """Take everything out, in the order in which items first came in."""
        drained = list(self._counts.items())
        self._counts.clear()
        return drained

    def copy(self) -> "SignedMultiset":
        """An equal multiset that changes apart from this one."""
        return SignedMultiset(self._counts)

    def items(self) -> ItemsView[Item, int]:
        """The items with their counts, none of them zero."""
        return self._counts.items()

    def __getitem__(self, item: Item) -> int:
        return self._counts.get(item, 0)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, item: object) -> bool:
        return item in self._counts

    def __eq__(self, other: object) -> bool:
        return self._counts == other._counts if isinstance(other, SignedMultiset) else NotImplemented

    def __add__(self, other: "SignedMultiset") -> "SignedMultiset":
        total = self.copy()
        total.extend(other.items())
        return total

    def __neg__(self) -> "SignedMultiset":
        return SignedMultiset([(item, -count) for item, count in self.items()])

    def __sub__(self, other: "SignedMultiset") -> "SignedMultiset":
        return self + -other

    def __repr__(self) -> str:
        return f"SignedMultiset({self._counts})"
