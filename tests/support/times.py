"""Times of a user's own: an order that several tests give to a flow or a graph."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pairs:
    """Pairs of independent counters, in the product order."""

    def less_equal(self, a: tuple[int, int], b: tuple[int, int], /) -> bool:
        return a[0] <= b[0] and a[1] <= b[1]

    def sort_key(self, element: tuple[int, int], /) -> tuple[int, int]:
        return element

    def minimum(self) -> tuple[int, int]:
        return (0, 0)
