"""Links by source with weights: the share of a value for each target.

Links lie in *runs* (``link_runs``), each sorted by source. A change is a run of its own; a link that is taken
away is one with the weight -1, and whatever is sent along it cancels what is sent along the one that it takes
away, exactly, because values are whole numbers. A run is merged with the one before it as soon as it is at
least half as long, so there are few of them, each link is moved a logarithmic number of times, and what has
cancelled out is dropped on the way.

Invariant: the weights of all runs, added up by source and target, are the links that are there.
"""

import numpy as np

from pointstamp.graphs.arrays.slots import Slots
from pointstamp.graphs.ranks.link_runs import (
    LinkRun,
    Links,
    Numbers,
    found_in,
    laid_run,
    merged_links,
    run_along,
)


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
