"""The frontier of a signed multiset, kept up to date change by change.

``MutableAntichain`` holds counts and the minimal elements of those with a positive count; elements of zero
or negative count are invisible (Brun et al. 2021, section 5). What it reports are changes of the
*frontier*, not of the counts: only those may flow on through a graph with cycles, or they would go round
forever.

Pairs of numbers, which the times in one loop are, are compared here without calling their order.

Elements that are not on the frontier wait in one heap per chain of the order, so that losing a frontier
element costs one look per chain and not per element. Stale heap entries are dropped when they surface,
or together when they outnumber the live ones.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from pointstamp.order.partial import PartialOrder, less_equal_2

Element: TypeAlias = Any
"""An element of the order. The class is not generic: one with a base cannot be compiled safely."""

NO_CHANGES: Final[Sequence[tuple[Element, int]]] = ()

_STALE_SLACK: Final = 16


class MutableAntichain:
    """Counts of elements and the frontier of the positive ones; changed by ``update`` alone."""

    __slots__ = (
        *("_are_pairs", "_chain", "_frontier", "_hidden", "_less_equal", "_live", "_sort_key", "_stored"),
        "counts",
    )

    def __init__(self, order: PartialOrder[Element], counts: Iterable[tuple[Element, int]] = ()) -> None:
        self.counts: dict[Element, int] = {}
        self._less_equal: Callable[[Element, Element], bool] = order.less_equal
        self._are_pairs: bool = order.less_equal is less_equal_2
        self._sort_key: Callable[[Element], Any] = order.sort_key
        # Not isinstance with the protocol, which costs microseconds: every port of every worker asks.
        self._chain: Callable[[Element], Hashable] = getattr(order, "chain", _itself)
        self._frontier: list[Element] = []
        # Positive elements that are not on the frontier, by chain; _live counts them, _stored also the stale.
        self._hidden: dict[Hashable, list[tuple[Any, Element]]] = {}
        self._live = 0
        self._stored = 0
        for element, count in counts:
            self.update(element, count)

    @property
    def frontier(self) -> Sequence[Element]:
        """The minimal elements of positive count, in no particular order; empty means complete."""
        return self._frontier

    def less_equal(self, element: Element) -> bool:
        """Return whether the element lies at or above the frontier."""
        for lower in self._frontier:  # noqa: SIM110 - any() takes longer
            if self._is_below(lower, element):
                return True
        return False

    def update(self, element: Element, change: int) -> Sequence[tuple[Element, int]]:
        """Change one count; return what joined (+1) and left (-1) the frontier."""
        before = self.counts.get(element, 0)
        after = before + change
        if after:
            self.counts[element] = after
        else:
            self.counts.pop(element, None)
        if before <= 0 < after:
            if self._frontier:
                return self._appear(element)
            self._frontier.append(element)
            return ((element, 1),)
        if after <= 0 < before:
            return self._vanish(element)
        return NO_CHANGES

    def update_all(self, changes: Sequence[tuple[Element, int]]) -> Sequence[tuple[Element, int]]:
        """Change many counts; return what joined and left the frontier on the whole."""
        counts = self.counts
        if len(changes) == 2:
            (old, lost), (new, gained) = changes
            if old == new and not lost + gained:
                # What moves on inside of a loop leaves it at the time at which it left before.
                return NO_CHANGES
            if lost == -1 and gained == 1 and self._can_give_way(old, new):
                del counts[old]
                counts[new] = 1
                self._frontier[self._frontier.index(old)] = new
                return changes
        net: dict[Element, int] = {}
        for element, change in changes:
            for moved, difference in self.update(element, change):
                net[moved] = net.get(moved, 0) + difference
        return [item for item in net.items() if item[1]]

    def _can_give_way(self, old: Element, new: Element) -> bool:
        """Whether one element stands where another stood, and nothing else moves: most of all changes."""
        counts = self.counts
        if self._live or counts.get(old) != 1 or old == new or new in counts:
            return False
        if len(counts) == 1:
            return True
        for other in self._frontier:
            if other != old and (self._is_below(other, new) or self._is_below(new, other)):
                return False
        return True

    def _appear(self, element: Element) -> Sequence[tuple[Element, int]]:
        frontier = self._frontier
        for lower in frontier:
            if self._is_below(lower, element):
                self._hide(element)
                return NO_CHANGES
        covered = [upper for upper in frontier if self._is_below(element, upper)]
        if not covered:
            frontier.append(element)
            return ((element, 1),)
        for upper in covered:
            frontier.remove(upper)
            self._hide(upper)
        frontier.append(element)
        return [*[(upper, -1) for upper in covered], (element, 1)]

    def _vanish(self, element: Element) -> Sequence[tuple[Element, int]]:
        frontier = self._frontier
        if element not in frontier:
            self._live -= 1
            if self._stored > 2 * self._live + _STALE_SLACK:
                self._drop_stale()
            return NO_CHANGES
        frontier.remove(element)
        if not self._live:
            return ((element, -1),)
        return [(element, -1), *[(risen, 1) for risen in self._rise()]]

    def _is_below(self, lower: Element, upper: Element) -> bool:
        if not self._are_pairs:
            return self._less_equal(lower, upper)
        a: tuple[Any, ...] = lower
        b: tuple[Any, ...] = upper
        return bool(a[0] <= b[0]) and bool(a[1] <= b[1])

    def _chain_of(self, element: Element) -> Hashable:
        if not self._are_pairs:
            return self._chain(element)
        pair: tuple[Any, ...] = element
        second: Hashable = pair[1]
        return second

    def _hide(self, element: Element) -> None:
        heap = self._hidden.setdefault(self._chain_of(element), [])
        heappush(heap, (element if self._are_pairs else self._sort_key(element), element))
        self._live += 1
        self._stored += 1

    def _rise(self) -> list[Element]:
        """Move to the frontier what no frontier element covers any more.

        The least of each chain is a candidate. Taken in a linear extension, a candidate that nothing on
        the frontier covers is minimal, and once it has risen it covers the rest of its chain.
        """
        heads = [head for chain in list(self._hidden) if (head := self._head(chain)) is not None]
        if len(heads) > 1:
            heads.sort(key=_key_of_head)
        risen = []
        for _, element, chain in heads:
            if not self.less_equal(element):
                self._pop(chain)
                self._live -= 1
                self._frontier.append(element)
                risen.append(element)
        return risen

    def _head(self, chain: Hashable) -> tuple[Any, Element, Hashable] | None:
        """The least live element of a chain, after dropping stale and repeated entries above it."""
        heap = self._hidden[chain]
        while heap:
            key, element = heap[0]
            if self.counts.get(element, 0) > 0 and element not in self._frontier:
                return key, element, chain
            self._pop(chain)
            if chain not in self._hidden:
                return None
        return None

    def _pop(self, chain: Hashable) -> None:
        heap = self._hidden[chain]
        heappop(heap)
        self._stored -= 1
        if not heap:
            del self._hidden[chain]

    def _drop_stale(self) -> None:
        live = [
            element for element, count in self.counts.items() if count > 0 and element not in self._frontier
        ]
        self._hidden.clear()
        for element in live:
            self._hidden.setdefault(self._chain_of(element), []).append((self._sort_key(element), element))
        for heap in self._hidden.values():
            heapify(heap)
        self._stored = len(live)


def _itself(element: Hashable) -> Hashable:
    """Every element a separate chain: right for any order."""
    return element


def _key_of_head(head: tuple[Any, Any, Hashable]) -> Any:  # noqa: ANN401 - a sort key of the order
    return head[0]
