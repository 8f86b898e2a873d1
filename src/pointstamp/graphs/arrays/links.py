"""Links by source with weights: the share of a value for each target.

Links lie in *runs* (this module), each sorted by source. A change is a separate run; a link that is taken
away is one with the weight -1, and whatever is sent along it cancels what is sent along the one that it takes
away, exactly, because values are integers. A run is merged with the one before it as soon as it is at
least half as long, so there are few of them, each link is moved a logarithmic number of times, and what has
cancelled out is dropped on the way.

Invariant: the weights of all runs, summed by source and target, are the links that are there.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slot_arrays import Slots, order_of

# Links sorted by source, with offsets, and sums by slot.
#
# These are the compressed sparse rows of linear algebra. Where most sources are asked for, a run is read from
# its beginning to its end instead of source by source.

Numbers = npt.NDArray[np.int64]

# Reading a run from end to end costs about as much as finding a quarter of its links one source at a time.
_WHOLE_SHARE: Final = 4


class Links(NamedTuple):
    """Links as columns: sources and targets as slots, and weights."""

    src: Slots
    dst: Slots
    weight: Numbers


class LinkRun(NamedTuple):
    """Links sorted by source; the links of source s are those from ``begin[s]`` to ``begin[s + 1]``."""

    links: Links
    begin: Slots
    is_plain: bool
    """Whether all weights are 1."""


def run_along(run: LinkRun, slots: Slots, values: Numbers) -> tuple[Slots, Numbers]:
    """The targets of these sources in a run, and the value of the source for each, times its weight."""
    is_known = slots < len(run.begin) - 1
    if not is_known.all():
        slots, values = slots[is_known], values[is_known]
    if _WHOLE_SHARE * len(slots) > len(run.begin):
        each = np.zeros(len(run.begin), np.int64)
        each[slots] = values
        of_links = each[run.links.src]
        return run.links.dst, of_links if run.is_plain else of_links * run.links.weight
    length, at = found_in(run, slots)
    of_links = np.repeat(values, length)
    return run.links.dst[at], of_links if run.is_plain else of_links * run.links.weight[at]


def found_in(run: LinkRun, slots: Slots) -> tuple[Slots, Slots]:
    """Return the count and position of the links of these sources in a run."""
    within = np.minimum(slots, len(run.begin) - 2)
    first = run.begin[within]
    length = np.where(slots == within, run.begin[within + 1] - first, 0)
    before = np.cumsum(length) - length
    return length, np.arange(int(length.sum())) + np.repeat(first - before, length)


def added_up(slots: Slots, values: Numbers, bound: int) -> tuple[Slots, Numbers]:
    """Each slot once, ascending, with the sum of its values, where this is not 0; slots are below a bound.

    >>> slots, sums = added_up(np.array([4, 1, 4, 2]), np.array([5, 1, -5, 3]), 5)
    >>> slots.tolist(), sums.tolist()
    ([1, 2], [1, 3])
    """
    if not len(slots):
        return slots, values
    if _WHOLE_SHARE * len(slots) > bound:
        sums = np.zeros(bound, np.int64)
        np.add.at(sums, slots, values)
        there = np.flatnonzero(sums)
        return there, sums[there]
    order = order_of(slots, bound)
    slots = slots[order]
    at = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
    total = np.add.reduceat(values[order], at)
    there = np.flatnonzero(total)
    return slots[at[there]], total[there]


def merged_links(one: Links, other: Links) -> Links:
    """Return the consolidated links of both, with summed weights."""
    both = Links(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
    if not len(both.src):
        return both
    order = order_of(both.dst, int(both.dst.max()) + 1)
    order = order[order_of(both.src[order], int(both.src.max()) + 1)]
    src, dst, weight = (column[order] for column in both)
    is_first = np.ones(len(src), np.bool_)
    is_first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    at = np.flatnonzero(is_first)
    total = np.add.reduceat(weight, at)
    there = np.flatnonzero(total)
    return Links(src[at[there]], dst[at[there]], total[there])


def laid_run(links: Links) -> LinkRun:
    """Links in the order of their sources, with the place where each source begins."""
    sources = int(links.src.max()) + 1
    order = order_of(links.src, sources)
    begin = np.zeros(sources + 1, np.intp)
    np.cumsum(np.bincount(links.src, minlength=sources), out=begin[1:])
    return LinkRun(Links(*(column[order] for column in links)), begin, bool((links.weight == 1).all()))


class OutLinks:
    """The links of a worker's vertices; changed by the operator that owns it."""

    def __init__(self) -> None:
        self._runs: list[LinkRun] = []

    def add(self, links: Links) -> None:
        """Add links, or take away those whose weight is below zero."""
        if not len(links.src):
            return
        while self._runs and len(self._runs[-1].links.src) <= 2 * len(links.src):
            links = merged_links(self._runs.pop().links, links)
        if len(links.src):
            self._runs.append(laid_run(links))

    def along(self, slots: Slots, values: Numbers) -> tuple[Slots, Numbers]:
        """The targets of these sources, and the value of the source for each, times the link's weight."""
        parts = [run_along(run, slots, values) for run in self._runs]
        if len(parts) == 1:
            return parts[0]
        targets = [np.empty(0, np.intp), *(part[0] for part in parts)]
        return np.concatenate(targets), np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])

    def of(self, slots: Slots) -> tuple[Slots, Slots, Numbers]:
        """The links of these sources: which of them each belongs to, its target and its weight."""
        places = np.arange(len(slots))
        parts = [found_in(run, slots) for run in self._runs]
        at = [np.repeat(places[: len(length)], length) for length, _ in parts]
        found = [run.links for run in self._runs]
        if not parts:
            return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.int64)
        return (
            np.concatenate(at),
            np.concatenate([links.dst[where] for links, (_, where) in zip(found, parts, strict=True)]),
            np.concatenate([links.weight[where] for links, (_, where) in zip(found, parts, strict=True)]),
        )

    def all(self) -> Links:
        """Return all links, each once."""
        none = Links(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.int64))
        for run in self._runs:
            none = merged_links(none, run.links)
        return none

    def __len__(self) -> int:
        return sum(len(run.links.src) for run in self._runs)
