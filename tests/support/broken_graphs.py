"""Graph algorithms that are broken on purpose: each function is one switch, and each makes one mistake.

``MUTANTS`` says for each which case, ids and route of workers show it, so that a story must find it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.graphs import edge_tables as graph_module
from pointstamp.graphs import label_propagation
from pointstamp.graphs.arrays import edges
from pointstamp.graphs.arrays.numbering import NUMBER, GiveNumbers
from pointstamp.graphs.arrays.slot_arrays import Slots, added_up, distinct
from pointstamp.graphs.gathering import CountedEdges, CountedVertices, WholeChange, WholeGraph
from pointstamp.graphs.label_propagation import RoundLabels, most_votes
from pointstamp.graphs.page_rank import Residuals
from pointstamp.graphs.search_state import StartChanges, Told, WayKeys, Ways

Patch = pytest.MonkeyPatch


def loops_lead_both_ways(patch: Patch) -> None:
    """A loop at a vertex of an undirected graph is there once for each direction."""

    def links(graph: graph_module.Graph) -> ps.Table:
        if graph.directed:
            return graph._one_way
        ends = {"src": ps.col("dst"), "dst": ps.col("src")}
        return graph._one_way.union(graph._one_way.with_columns(**ends).named("links: back"))

    patch.setattr(graph_module.Graph, "links", property(links))


def loops_are_neighbours(patch: Patch) -> None:
    """A vertex with a loop is a neighbour of itself."""
    change = WholeGraph.change

    def with_loops(self: WholeGraph, edges: CountedEdges, given: CountedVertices) -> WholeChange:
        made = change(self, edges, given)
        src, dst, _ = self._slots_of(edges.src, edges.dst, given.ids)
        loops = np.flatnonzero((src == dst) & (edges.by > 0))
        added = (src[loops], dst[loops], edges.length[loops])
        come = type(made.come)(*map(np.concatenate, zip(made.come, added, strict=True)))
        return made._replace(come=come)

    patch.setattr(WholeGraph, "change", with_loops)


def parallel_edges_are_one(patch: Patch) -> None:
    """A change finds the first edge between two vertices, whatever its length."""

    def places_in(run: Any, pair: Any, length: Any) -> tuple[Slots, Slots]:  # noqa: ANN401 - arrays
        low, high = np.searchsorted(run.pair, pair), np.searchsorted(run.pair, pair, "right")
        rows = np.flatnonzero(low < high)
        return rows, low[rows]

    patch.setattr(edges, "places_in", places_in)


def a_vertex_without_votes_keeps_its_label(patch: Patch) -> None:
    """A vertex that has lost its last edge, or returns without one, has the label that it had."""

    def vote(self: RoundLabels, now: int, voters: Slots) -> Slots:
        if now >= self._rounds:
            return np.empty(0, np.intp)
        voters = distinct(max(self._vertices.count, 1), voters, self.relinked)
        at, beside, weight = self._links.of(voters)
        chosen = self._labels[now + 1, voters]
        has_votes, most = most_votes(at, self._labels[now, beside], weight)
        chosen[has_votes] = most
        changed: Slots = voters[chosen != self._labels[now + 1, voters]]
        self._labels[now + 1, voters] = chosen
        return changed

    patch.setattr(RoundLabels, "vote", vote)


def a_vertex_that_left_still_begins(patch: Patch) -> None:
    """A vertex that is gone still passes its label on."""
    change = Ways.change_starts

    def change_starts(self: Ways, starts: StartChanges) -> Slots:
        come = starts.by > 0
        return change(self, StartChanges(*(column[come] for column in starts)))

    patch.setattr(Ways, "change_starts", change_starts)


def retracted_votes_count(patch: Patch) -> None:
    """A vote that was retracted is one vote more."""

    def all_votes(voters: Any, labels: Any, weights: Any) -> Any:  # noqa: ANN401 - arrays
        return most_votes(voters, labels, np.abs(weights))

    patch.setattr(label_propagation, "most_votes", all_votes)


def numbers_of_others_are_given_again(patch: Patch) -> None:
    """A worker that resumes knows the last number of its own ids only."""

    def restore(self: GiveNumbers, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        self.on_start(context)
        there = added_up(pieces["numbers"])
        numbers = there.column(NUMBER).to_pylist()
        self._number = dict(zip(there.column("id").to_pylist(), numbers, strict=True))
        self._last = max(numbers, default=-1)

    patch.setattr(GiveNumbers, "restore", restore)


def workers_share_numbers(patch: Patch) -> None:
    """Which numbers a worker gives depends on its last one and not on the worker alone."""

    def next_numbers(self: GiveNumbers, count: int) -> np.typing.NDArray[np.int64]:
        first = self._last + 1
        first += (self._worker + first) % self._workers
        numbers = first + self._workers * np.arange(count)
        self._last = int(numbers[-1]) if count else self._last
        return numbers

    patch.setattr(GiveNumbers, "_next", next_numbers)


def the_greatest_label_means_none(patch: Patch) -> None:
    """A vertex whose label is the greatest value of its type is taken for one that is not reached."""
    take = WayKeys.take_changes

    def take_changes(self: WayKeys) -> tuple[Told, Told]:
        return tuple(  # type: ignore[return-value]
            Told(*(column[told.distance != self.greatest] for column in told)) for told in take(self)
        )

    patch.setattr(WayKeys, "take_changes", take_changes)


def ranks_stay_when_the_last_source_goes(patch: Patch) -> None:
    """What residuals below the tolerance leave of ranks is scaled to a sum of one."""
    patch.setattr(Residuals, "clear", lambda _: None)


class Mutant(NamedTuple):
    """A switch, and what a story must be told with to find it."""

    switch: Callable[[Patch], None]
    case: str
    key: str = "long"
    directed: bool = True
    route: tuple[int, ...] = (1,)


MUTANTS = (
    Mutant(loops_lead_both_ways, "cdlp in 4 rounds", directed=False),
    Mutant(loops_lead_both_ways, "pagerank", directed=False),
    Mutant(loops_are_neighbours, "k-core"),
    Mutant(parallel_edges_are_one, "sssp from a table"),
    Mutant(parallel_edges_are_one, "forest"),
    Mutant(a_vertex_without_votes_keeps_its_label, "cdlp in 1 rounds"),
    Mutant(a_vertex_that_left_still_begins, "wcc"),
    Mutant(retracted_votes_count, "cdlp in 1 rounds", route=(2,)),
    Mutant(numbers_of_others_are_given_again, "numbers", "string", route=(1, 3, 2)),
    Mutant(workers_share_numbers, "wcc", "string", route=(3,)),
    Mutant(workers_share_numbers, "numbers", "string", route=(3,)),
    Mutant(the_greatest_label_means_none, "wcc"),
    Mutant(ranks_stay_when_the_last_source_goes, "ranks from sources"),
    Mutant(ranks_stay_when_the_last_source_goes, "ranks from sources", "string", route=(3, 1)),
)
