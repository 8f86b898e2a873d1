"""The operator of label propagation: it keeps the label of each of its vertices in every round, in arrays.

A vertex votes again in round i if its links have changed, or the label of a neighbour in the round before;
its neighbours hear of the new label in the next round. Who is linked to whom is the same in both directions,
so the links by which a vertex hears are those along which it tells. Labels are a function of the graph as it
is now, so nothing in them depends on the past.

A worker knows the labels of its vertices and of their neighbours. Both are saved: where as many workers go
on, each gets its own back, and where there are more or fewer all get all, of which those by the owners count.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pointstamp import Context, Piece, saved
from pointstamp.graphs.arrays.slots import Slots, distinct
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.communities.votes import most_votes
from pointstamp.graphs.ranks.out_links import Links, Numbers, OutLinks

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62
_LINKS: Final = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("diff", pa.int64())])
_TOLD: Final = pa.schema([("to", pa.int64()), ("of", pa.int64()), ("label", pa.int64())])
_LABELS: Final = pa.schema([("id", pa.int64()), ("label", pa.int64()), ("diff", pa.int64())])


class CountVotes:
    """Takes changes of ``ids`` and ``links``; sends ``again``, what neighbours hear, and ``labels``."""

    takes_times_in_order = True

    def __init__(self, rounds: int) -> None:
        self.outputs = {"again": _TOLD, "labels": _LABELS}
        self._rounds = rounds
        self._vertices = VertexTable()
        self._links = OutLinks()
        self._labels: Numbers = np.empty((rounds + 1, 0), np.int64)
        # By slot: whether the vertex is there, and is this worker's; whether it was there when it was last
        # reported, and with which label.
        self._is_there, self._was_there, self._shown = np.empty((3, 0), np.int64)
        self._is_unsaved = np.empty(0, np.bool_)
        self._waiting: dict[Any, dict[str, list[pa.RecordBatch]]] = {}
        self._relinked, self._added = np.empty(0, np.intp), Links(*np.empty((3, 0), np.int64))
        """Vertices whose links changed in this epoch, and the links that came."""
        self._unsaved: list[pa.RecordBatch] | None = None
        """Changes of links since the last save; None if nothing was saved yet."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what comes until its round is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Let those vote who have reason to; after the last round report the epoch."""
        epoch, now = context.time
        if now == _LAST_ROUND:
            self._report(context)
            return
        came = self._waiting.pop(context.time, {})
        if now == 0:
            self._change(came)
        voters = self._hear(now, came.get("again", ()))
        changed = self._vote(now, voters)
        while context.workers == 1 and (now := now + 1) < self._rounds:
            beside = self._links.along(changed, np.ones(len(changed), np.int64))[0]
            changed = self._vote(now, beside)
        if context.workers > 1 and now + 1 < self._rounds:
            self._tell(context, now + 1, changed)
            if len(self._relinked):
                context.notify_at((epoch, now + 1))
        context.notify_at((epoch, _LAST_ROUND))

    def _change(self, came: Mapping[str, list[pa.RecordBatch]]) -> None:
        for batch in came.get("ids", ()):
            slots = self._slots_of(batch.column(0))
            np.add.at(self._is_there, slots, batch.column(1).to_numpy())
            self._is_unsaved[slots] = True
        self._relinked, self._added = np.empty(0, np.intp), Links(*np.empty((3, 0), np.int64))
        if "links" in came:
            batch = pa.concat_batches(came["links"])
            links = self._links_of(batch)
            self._links.add(links)
            self._relinked = distinct(self._vertices.count, links.src)
            self._added = Links(*(column[links.weight > 0] for column in links))
            if self._unsaved is not None:
                self._unsaved.append(pa.RecordBatch.from_arrays(batch.columns, schema=_LINKS))

    def _hear(self, now: int, told: Any) -> Slots:  # noqa: ANN401 - batches
        """Take in the labels of neighbours in this round: those who have to vote by that."""
        voters = [np.empty(0, np.intp)]
        for batch in told:
            listeners, speakers = (self._slots_of(batch.column(end)) for end in (0, 1))
            self._labels[now, speakers] = batch.column(2).to_numpy()
            self._is_unsaved[speakers] = True
            voters.append(listeners)
        return np.concatenate(voters)

    def _vote(self, now: int, voters: Slots) -> Slots:
        """Let each voter take the label with the most votes of its neighbours: who has another one now."""
        if now >= self._rounds:
            return np.empty(0, np.intp)
        voters = distinct(max(self._vertices.count, 1), voters, self._relinked)
        at, beside, weight = self._links.of(voters)
        label = self._labels[now, beside]
        chosen = self._vertices.ids[voters]
        has_votes, most = most_votes(at, label, weight)
        chosen[has_votes] = most
        changed: Slots = voters[chosen != self._labels[now + 1, voters]]
        self._labels[now + 1, voters] = chosen
        self._is_unsaved[changed] = True
        return changed

    def _tell(self, context: Context, now: int, changed: Slots) -> None:
        """Tell neighbours the labels of a round: those that changed, and all to new neighbours."""
        at, to, _ = self._links.of(changed)
        speakers = np.concatenate((changed[at], self._added.src))
        listeners = np.concatenate((to, self._added.dst))
        if len(speakers):
            ids = self._vertices.ids
            columns = [ids[listeners], ids[speakers], self._labels[now, speakers]]
            batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_TOLD)
            context.send(batch, output="again")

    def _report(self, context: Context) -> None:
        count = self._vertices.count
        label, before = self._labels[-1, :count], self._shown[:count]
        is_there, was_there = self._is_there[:count] > 0, self._was_there[:count] > 0
        is_other = (is_there != was_there) | (is_there & (label != before))
        gone, new = np.flatnonzero(is_other & was_there), np.flatnonzero(is_other & is_there)
        ids, diff = self._vertices.ids, np.repeat([-1, 1], [len(gone), len(new)])
        columns = [np.concatenate((ids[gone], ids[new])), np.concatenate((before[gone], label[new])), diff]
        if len(diff):
            batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_LABELS)
            context.send(batch, output="labels")
        self._was_there[:count], self._shown[:count] = is_there, label

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels that this worker knows, and the links of its vertices; all, or what changed."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        unsaved, count = self._unsaved, self._vertices.count
        is_whole = not changes_only or unsaved is None or sum(map(len, unsaved)) > len(self._links)
        slots = np.arange(count) if is_whole else np.flatnonzero(self._is_unsaved[:count])
        columns = {"id": self._vertices.ids[slots], "is_there": self._is_there[slots]}
        columns |= {f"label {now}": self._labels[now, slots] for now in range(1, self._rounds + 1)}
        links = [self._batch_of(self._links.all())] if is_whole or unsaved is None else unsaved
        self._is_unsaved[:], self._unsaved = False, []
        labels = Piece(pa.table(columns), (), ("id",), is_whole)
        table = pa.Table.from_batches(links, _LINKS)
        return {"labels": labels, "links": Piece(table, ("src",), is_whole=is_whole, adds_up=True)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on with the labels that were known; those that the owners of vertices saved count."""
        table = pieces["labels"]
        is_there = table["is_there"].to_numpy()
        for rows in (np.flatnonzero(is_there == 0), np.flatnonzero(is_there)):
            slots = self._slots_of(table["id"].take(pa.array(rows)).combine_chunks())
            for now in range(1, self._rounds + 1):
                self._labels[now, slots] = table[f"label {now}"].to_numpy()[rows]
        own = table.filter(pa.array(is_there > 0)).select(["id"])
        mine = saved.owners(own, ("id",), context.workers) == context.worker
        slots = self._slots_of(own["id"].filter(pa.array(mine)).combine_chunks())
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
        columns = [*(self._vertices.ids[end] for end in links[:2]), links.weight]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_LINKS)
