"""Community detection by label propagation, as LDBC Graphalytics defines it.

    flow.output("communities", graphs.cdlp(graph, rounds=10))      # id, label

Every vertex begins with its own id as its label. In each round every vertex takes the label that is most
frequent among its neighbours in the round before, and of several the least (Raghavan, Albert and Kumara 2007,
made deterministic). After the given number of rounds its label names its community.

Outside loops, with numbers in the order of ids for ids of other types, it is the operator of this module,
which keeps the edges once and a label for every vertex and round. Otherwise each round is a separate table,
made of the one before: a join with the edges, a count of labels, and the first of each vertex. So an edge
that comes or goes changes round 1 at its two ends, round 2 beside those whose labels changed by it, and so
on; where labels stay the same nothing is done. What is kept is the edges and the counts of labels, for every
round.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp import Table, col, count, operator
from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.links import Links, Numbers, OutLinks
from pointstamp.graphs.arrays.slot_arrays import Ids, Slots, batch_of, distinct
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.edge_tables import Graph, check_graph
from pointstamp.ports import Context, Piece, saved


def cdlp(graph: Graph, *, rounds: int = 10) -> Table:
    """Detect communities by label propagation.

    An edge counts with its multiplicity. In a directed graph it counts in both directions, so two vertices
    with edges both ways count twice for each other. A vertex without edges keeps its label.

    Args:
        graph: The graph.
        rounds (int, default 10): The number of rounds.

    Returns:
        A table of ``id`` and ``label``, which is the id of a vertex.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.cdlp(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'label': [1, 1, 1]}

    """
    check_graph("cdlp", graph)
    if rounds < 0:
        raise FlowError(
            f"cdlp: rounds must be an integer of 0 or more, got {rounds!r}. Give a number of rounds."
        )
    if graph.needs_numbers:
        return graph.by_ordered_id(cdlp(graph.in_order, rounds=rounds), "id", "label")
    beside = _beside(graph)
    if graph.key_type == pa.int64():
        return _voted(graph, beside, rounds)
    labels = first = graph.ids.select("id", label=col("id")).named("labels")
    alone = first.join(beside, {"id": "src"}, how="anti").named("alone")
    for number in range(1, rounds + 1):
        heard = beside.join(labels, {"src": "id"}).named(f"labels heard in round {number}")
        votes = heard.group_by("dst", "label").agg(votes=count()).named(f"votes of round {number}")
        most = votes.top(1, "dst", by=["votes desc", "label"]).named(f"most votes of round {number}")
        labels = most.select(id=col("dst"), label=col("label")).named(f"labels {number}").union(alone)
    return labels


def _voted(graph: Graph, beside: Table, rounds: int) -> Table:
    """The same by an operator in a loop, whose rounds are those of the algorithm."""
    links = beside.changes().named("links")
    if links.loops:
        raise FlowError(
            f"cdlp of {graph}: the graph must be outside of loops, got one in loop '{links.loops[-1]}'. "
            "Leave the loop first."
        )
    logic = CountVotes(rounds)
    with links.loop("label propagation") as loop:
        again = loop.variable(logic.outputs["again"], "labels of neighbours")
        told, labels = operator(
            "cdlp",
            logic,
            ids=loop.enter(graph.ids.changes().named("vertices")).exchange("id"),
            links=loop.enter(links).exchange("src"),
            again=again.exchange("to"),
        )
        loop.feedback(again, told)
        return Table(loop.leave(labels)).select("id", "label").named("communities")


def _beside(graph: Graph) -> Table:
    """The paths of labels: the edges in both directions."""
    links = graph.links.select("src", "dst").named("links: ends")
    if not graph.directed:
        return links
    back = links.select(src=col("dst"), dst=col("src")).named("links: the other way")
    return links.union(back).named("beside")


# The label propagation operator: votes round by round, output by epoch.
#
# A vertex votes again in round i if its links have changed, or the label of a neighbour in the round before;
# its neighbors receive the new label in the next round. Links are the same in both directions, so the links
# by which a vertex hears are those along which it tells. Labels are a function of the graph as it is now
# (this module), so nothing in them depends on the past.
#
# A worker knows the labels of its vertices and of their neighbours.

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62
_TOLD: Final = pa.schema([("to", pa.int64()), ("of", pa.int64()), ("label", pa.int64())])
_LABELS: Final = pa.schema([("id", pa.int64()), ("label", pa.int64()), ("diff", pa.int64())])


class CountVotes:
    """Takes changes of ``ids`` and ``links``; emits ``again`` (messages to neighbors) and ``labels``."""

    takes_times_in_order = True

    def __init__(self, rounds: int) -> None:
        self.outputs = {"again": _TOLD, "labels": _LABELS}
        self._rounds = rounds
        self._labels = RoundLabels(rounds)
        self._waiting: dict[Any, dict[str, list[pa.RecordBatch]]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what comes until its round is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Let those vote who have reason to; after the last round report the epoch."""
        epoch, now = context.time
        labels = self._labels
        if now == _LAST_ROUND:
            self._send(context, "labels", *labels.take_report())
            return
        came = self._waiting.pop(context.time, {})
        if now == 0:
            labels.change(came)
        voters = labels.hear(now, came.get("again", ()))
        changed = labels.vote(now, voters)
        while context.workers == 1 and (now := now + 1) < self._rounds:
            changed = labels.vote(now, labels.beside(changed))
        if context.workers > 1 and now + 1 < self._rounds:
            self._send(context, "again", *labels.told(now + 1, changed))
            if len(labels.relinked):
                context.notify_at((epoch, now + 1))
        context.notify_at((epoch, _LAST_ROUND))

    def _send(self, context: Context, output: str, *columns: npt.NDArray[Any]) -> None:
        if len(columns[0]):
            context.send(batch_of(self.outputs[output], *columns), output=output)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels that this worker knows, and the links of its vertices; all, or what changed."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        return self._labels.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the labels that were known; those that the owners of vertices saved count."""
        self._labels.restore(pieces, context.worker, context.workers)


# Labels of all rounds of label propagation, and the links that vote.
#
# It has the vertices of a worker and their neighbours, and takes epochs and their rounds in order.


class RoundLabels:
    """The label of each vertex in each round, as the graph is now; changed by the operator that owns it."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._vertices = VertexTable()
        self._links = OutLinks()
        self._labels: Numbers = np.empty((rounds + 1, 0), np.int64)
        # By slot: whether the vertex is there and this worker's; the same, and its label, at the last report.
        self._is_there, self._was_there, self._shown = np.empty((3, 0), np.int64)
        self._is_unsaved = np.empty(0, np.bool_)
        self.relinked, self._added = np.empty(0, np.intp), Links(*np.empty((3, 0), np.int64))
        """Vertices that came or whose links changed in this epoch, and the links that came."""
        self._unsaved: list[pa.RecordBatch] | None = None
        """Changes of links since the last save; None if nothing was saved yet."""

    def change(self, came: Mapping[str, list[pa.RecordBatch]]) -> None:
        """Take in the vertices and links of an epoch; a vertex that returns votes, its label may be old."""
        voters = [np.empty(0, np.intp)]
        for batch in came.get("ids", ()):
            slots = self._slots_of(batch.column(0))
            voters.append(slots)
            np.add.at(self._is_there, slots, batch.column(1).to_numpy())
            self._is_unsaved[slots] = True
        self._added = Links(*np.empty((3, 0), np.int64))
        if "links" in came:
            batch = pa.concat_batches(came["links"])
            links = self._links_of(batch)
            self._links.add(links)
            voters.append(links.src)
            self._added = Links(*(column[links.weight > 0] for column in links))
            if self._unsaved is not None:
                self._unsaved.append(pa.RecordBatch.from_arrays(batch.columns, schema=LINKS))
        self.relinked = distinct(max(self._vertices.count, 1), *voters)

    def hear(self, now: int, told: Any) -> Slots:  # noqa: ANN401 - batches
        """Take in the labels of neighbours in this round: those who have to vote by that."""
        voters = [np.empty(0, np.intp)]
        for batch in told:
            listeners, speakers = (self._slots_of(batch.column(end)) for end in (0, 1))
            self._labels[now, speakers] = batch.column(2).to_numpy()
            self._is_unsaved[speakers] = True
            voters.append(listeners)
        return np.concatenate(voters)

    def vote(self, now: int, voters: Slots) -> Slots:
        """Let each voter take the label with the most votes of its neighbours: who has another one now."""
        if now >= self._rounds:
            return np.empty(0, np.intp)
        voters = distinct(max(self._vertices.count, 1), voters, self.relinked)
        at, beside, weight = self._links.of(voters)
        label = self._labels[now, beside]
        chosen = self._vertices.ids[voters]
        has_votes, most = most_votes(at, label, weight)
        chosen[has_votes] = most
        changed: Slots = voters[chosen != self._labels[now + 1, voters]]
        self._labels[now + 1, voters] = chosen
        self._is_unsaved[changed] = True
        return changed

    def beside(self, changed: Slots) -> Slots:
        """The neighbours of vertices."""
        return self._links.along(changed, np.ones(len(changed), np.int64))[0]

    def told(self, now: int, changed: Slots) -> tuple[Ids, Ids, Numbers]:
        """Return the label messages of a round: changed labels, and all labels for new neighbors."""
        at, to, _ = self._links.of(changed)
        speakers = np.concatenate((changed[at], self._added.src))
        listeners = np.concatenate((to, self._added.dst))
        ids = self._vertices.ids
        return ids[listeners], ids[speakers], self._labels[now, speakers]

    def take_report(self) -> tuple[Ids, Numbers, Numbers]:
        """Return the changes since the last report: ids, labels, and insertions or deletions."""
        count = self._vertices.count
        label, before = self._labels[-1, :count], self._shown[:count]
        is_there, was_there = self._is_there[:count] > 0, self._was_there[:count] > 0
        is_other = (is_there != was_there) | (is_there & (label != before))
        gone, new = np.flatnonzero(is_other & was_there), np.flatnonzero(is_other & is_there)
        ids, diff = self._vertices.ids, np.repeat([-1, 1], [len(gone), len(new)])
        report = np.concatenate((ids[gone], ids[new])), np.concatenate((before[gone], label[new])), diff
        self._was_there[:count], self._shown[:count] = is_there, label
        return report

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels that this worker knows, and the links of its vertices; all, or what changed."""
        unsaved, count = self._unsaved, self._vertices.count
        is_whole = not changes_only or unsaved is None or sum(map(len, unsaved)) > len(self._links)
        slots = np.arange(count) if is_whole else np.flatnonzero(self._is_unsaved[:count])
        links = [self._batch_of(self._links.all())] if is_whole or unsaved is None else unsaved
        self._is_unsaved[:], self._unsaved = False, []
        labels = self._vertices.ids[slots], self._is_there[slots], self._labels[:, slots]
        return {
            "labels": piece_of_labels(*labels, is_whole=is_whole),
            "links": piece_of_links(links, is_whole=is_whole),
        }

    def restore(self, pieces: Mapping[str, pa.Table], worker: int, workers: int) -> None:
        """Continue with the labels that were known; those that the owners of vertices saved count."""
        for ids, labels in saved_labels(pieces["labels"], self._rounds):
            slots = self._slots_of(ids)
            self._labels[1:, slots] = labels
        slots = self._slots_of(own_ids(pieces["labels"], worker, workers))
        self._is_there[slots] = self._was_there[slots] = 1
        self._shown[slots] = self._labels[-1, slots]
        for batch in pieces["links"].to_batches():
            self._links.add(self._links_of(batch))

    def _slots_of(self, ids: pa.Array) -> Slots:
        """The slots of vertices; one that is new has its id as its label in every round."""
        before = self._vertices.count
        slots = self._vertices.slots_of(ids.to_numpy())
        count = self._vertices.count
        if count > len(self._shown):
            room = count + count // 2
            more = ((0, 0), (0, room - len(self._shown)))
            self._labels = np.pad(self._labels, more)
            numbers = np.stack((self._is_there, self._was_there, self._shown))
            self._is_there, self._was_there, self._shown = np.pad(numbers, more)
            self._is_unsaved = np.pad(self._is_unsaved, more[1])
        self._labels[:, before:count] = self._vertices.ids[before:]
        return slots

    def _links_of(self, batch: pa.RecordBatch) -> Links:
        src, dst = (self._slots_of(batch.column(end)) for end in (0, 1))
        return Links(src, dst, batch.column(2).to_numpy())

    def _batch_of(self, links: Links) -> pa.RecordBatch:
        return batch_of(LINKS, *(self._vertices.ids[end] for end in links[:2]), links.weight)


# Count votes: the most frequent label of each voter, the least of several.


def most_votes(voters: Slots, labels: Numbers, weights: Numbers) -> tuple[Slots, Numbers]:
    """The voters for whom any votes are left, ascending, and the label that each of them takes.

    A vote that was retracted is there with both signs, and counts for nothing.

    >>> voters, labels = most_votes(np.array([0, 0, 0, 3, 3, 5, 5]), np.array([7, 9, 7, 8, 4, 1, 1]),
    ...                             np.array([1, 1, 1, 1, 1, 1, -1]))
    >>> voters.tolist(), labels.tolist()
    ([0, 3], [7, 4])
    """
    order = np.lexsort((labels, voters))
    voters, labels, weights = voters[order], labels[order], weights[order]
    first = _firsts(voters, labels)
    votes = np.add.reduceat(weights, first) if len(first) else weights
    there = np.flatnonzero(votes)
    voters, labels, votes = voters[first[there]], labels[first[there]], votes[there]
    order = np.lexsort((labels, -votes, voters))
    first = _firsts(voters[order])
    return voters[order[first]], labels[order[first]]


def _firsts(*columns: Numbers) -> Slots:
    """The positions in sorted columns at which the value changes."""
    is_first = np.ones(len(columns[0]), np.bool_)
    is_first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(is_first)


# Save and restore labels and links of label propagation.
#
# The labels of a worker's vertices and of their neighbours are saved: where as many workers continue, each
# gets its own back, and where there are more or fewer all get all, of which those by the owners count.

LINKS: Final = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("diff", pa.int64())])


def piece_of_labels(ids: Ids, is_there: Numbers, labels: Numbers, *, is_whole: bool) -> Piece:
    """Saved vertices: presence, ownership, and labels by round."""
    columns = {"id": ids, "is_there": is_there}
    columns |= {f"label {now}": labels[now] for now in range(1, len(labels))}
    return Piece(pa.table(columns), (), ("id",), is_whole)


def piece_of_links(links: list[pa.RecordBatch], *, is_whole: bool) -> Piece:
    """Links, or how they have changed."""
    return Piece(pa.Table.from_batches(links, LINKS), ("src",), is_whole=is_whole, adds_up=True)


def saved_labels(table: pa.Table, rounds: int) -> Iterator[tuple[pa.Array, Numbers]]:
    """Ids and labels from round 1 on: first those of neighbours, then those by the owners, which count."""
    is_there = table["is_there"].to_numpy()
    for rows in (np.flatnonzero(is_there == 0), np.flatnonzero(is_there)):
        labels = [table[f"label {now}"].to_numpy()[rows] for now in range(1, rounds + 1)]
        yield table["id"].take(pa.array(rows)).combine_chunks(), np.array(labels).reshape(rounds, len(rows))


def own_ids(table: pa.Table, worker: int, workers: int) -> pa.Array:
    """Return the present vertices of a worker."""
    own = table.filter(pa.array(table["is_there"].to_numpy() > 0)).select(["id"])
    mine = saved.owners(own, ("id",), workers) == worker
    return own["id"].filter(pa.array(mine)).combine_chunks()
