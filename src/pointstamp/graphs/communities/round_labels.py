"""Labels of all rounds of label propagation, and the links that vote.

It has the vertices of a worker and their neighbours, and takes epochs and their rounds in order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pointstamp.graphs.arrays.columns import batch_of
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.communities import saving
from pointstamp.graphs.communities.votes import most_votes
from pointstamp.graphs.ranks.link_runs import Links, Numbers
from pointstamp.graphs.ranks.out_links import OutLinks
from pointstamp.ports import Piece


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
                self._unsaved.append(pa.RecordBatch.from_arrays(batch.columns, schema=saving.LINKS))
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
            "labels": saving.piece_of_labels(*labels, is_whole=is_whole),
            "links": saving.piece_of_links(links, is_whole=is_whole),
        }

    def restore(self, pieces: Mapping[str, pa.Table], worker: int, workers: int) -> None:
        """Continue with the labels that were known; those that the owners of vertices saved count."""
        for ids, labels in saving.saved_labels(pieces["labels"], self._rounds):
            slots = self._slots_of(ids)
            self._labels[1:, slots] = labels
        slots = self._slots_of(saving.own_ids(pieces["labels"], worker, workers))
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
        return batch_of(saving.LINKS, *(self._vertices.ids[end] for end in links[:2]), links.weight)
