"""The PageRank operator: ranks in state, residuals pushed round by round.

A round takes in all that was sent in the one before, so the ranks do not depend on who is told first; sums
are those of whole numbers, so they do not depend on how they are put together. One worker alone has no other
worker to tell and goes through the same rounds within one call, with the same result.

An epoch is reported once, after its last round. ``saving`` says what is saved at a closed epoch. Where resets
are at some sources only, every worker knows their number: when the last one goes all ranks are 0. Residuals
alone would leave them within the tolerance, and scaling to a sum would make them large again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pointstamp.graphs.arrays.slots import Slots, distinct
from pointstamp.graphs.ranks.link_runs import Links, Numbers, added_up
from pointstamp.graphs.ranks.residuals import NONE, Residuals
from pointstamp.graphs.ranks.saving import pieces_of, saved_sources
from pointstamp.ports import Context, Piece

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62
_SAVED: Final = ("is_there", "resets", "rank", "incoming")


class PushResiduals:
    """Sends ``again``, what comes in at other vertices, and ``ranks``, the changes of an epoch, in units."""

    takes_times_in_order = True

    def __init__(
        self, type_: pa.DataType, damping: float, tolerance: float, *, counts_sources: bool = False
    ) -> None:
        self.outputs = {
            "again": pa.schema([("id", type_), ("incoming", pa.int64())]),
            "ranks": pa.schema([("id", type_), ("units", pa.int64()), ("diff", pa.int64())]),
        }
        self._vertices = pa.schema([("id", type_), *((name, pa.int64()) for name in _SAVED)])
        self._links = pa.schema([("src", type_), ("dst", type_), ("diff", pa.int64())])
        self._ranks = Residuals(type_, damping, tolerance)
        # The number of sources on all workers, where resets are at sources only.
        self._sources: int | None = 0 if counts_sources else None
        self._waiting: dict[Any, dict[str, list[pa.RecordBatch]]] = {}
        self._unsaved: list[pa.RecordBatch] | None = None
        """Changes of links since the last save; None if nothing was saved yet."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what comes until its round is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Take a round in; after the last one report the epoch."""
        now = context.time[-1]
        if now < _LAST_ROUND:
            slots, values = self._take(self._waiting.pop(context.time, {}), now)
            if context.workers > 1:
                self._tell(context, slots, values)
                return
            while len(slots) or len(self._ranks.pending):
                now += 1
                self._ranks.take_in(slots, values)
                slots, values = self._added_up([self._ranks.push(slots, now)])
        slots, units, diff = self._ranks.report()
        if len(slots):
            columns = [self._ranks.ids.ids_of(slots), pa.array(units), pa.array(diff)]
            context.send(pa.RecordBatch.from_arrays(columns, schema=context.schema("ranks")), output="ranks")

    def _tell(self, context: Context, slots: Slots, values: Numbers) -> None:
        """Tell the owners of other vertices what comes in there, and continue in the next round."""
        epoch, now = context.time
        if len(slots):
            told = [self._ranks.ids.ids_of(slots), pa.array(values)]
            context.send(pa.RecordBatch.from_arrays(told, schema=context.schema("again")), output="again")
        if len(self._ranks.pending):
            context.notify_at((epoch, now + 1))
        context.notify_at((epoch, _LAST_ROUND))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Vertices and links, all or those that changed since the last save."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        ranks, unsaved = self._ranks, self._unsaved
        is_whole = not changes_only or unsaved is None or sum(map(len, unsaved)) > len(ranks.links)
        numbers = [getattr(ranks, name)[: ranks.ids.count] for name in _SAVED]
        is_known = np.logical_or.reduce([column != 0 for column in numbers])
        slots = np.flatnonzero(is_known if is_whole else ranks.is_unsaved[: ranks.ids.count])
        columns = [ranks.ids.ids_of(slots), *(pa.array(column[slots]) for column in numbers)]
        links = [self._batch_of(ranks.links.all())] if is_whole or unsaved is None else unsaved
        ranks.is_unsaved[:] = False
        self._unsaved = []
        tables = pa.table(columns, schema=self._vertices), pa.Table.from_batches(links, self._links)
        return pieces_of(*tables, self._sources, is_whole=is_whole)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the ranks of this worker's vertices, and with their links."""
        ranks, vertices, links = self._ranks, pieces["vertices"], pieces["links"].combine_chunks()
        if self._sources is not None:
            self._sources = saved_sources(pieces)
        slots = ranks.slots_of(vertices["id"].combine_chunks())
        for name in _SAVED:
            getattr(ranks, name)[slots] = vertices[name].to_numpy()
        ranks.shown[slots] = np.where(ranks.is_there[slots] > 0, ranks.rank[slots], NONE)
        if links.num_rows:
            self._ranks.restore_links(self._links_of(links.to_batches()[0]))

    def _take(self, came: Mapping[str, list[pa.RecordBatch]], now: int) -> tuple[Slots, Numbers]:
        """Take in a round: the vertices and links that change, what comes in, and who has to push then."""
        ranks = self._ranks
        looked_at = [np.empty(0, np.intp)]
        for input_, column in (("ids", "is_there"), ("resets", "resets")):
            for batch in came.get(input_, ()):
                slots = ranks.slots_of(batch.column(0))
                np.add.at(getattr(ranks, column), slots, batch.column(1).to_numpy())
                ranks.touch(slots)
                looked_at.append(slots)
        if "sources" in came and self._sources is not None:
            self._sources += sum(int(batch.column(0).to_numpy().sum()) for batch in came["sources"])
            if self._sources == 0:
                ranks.clear()
        sent = []
        if "links" in came:
            batch = pa.concat_batches(came["links"])
            links = self._links_of(batch)
            sent.append(ranks.relink(links))
            looked_at.append(links.src)
            if self._unsaved is not None:
                self._unsaved.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._links))
        again = came.get("again", ())
        told = [(ranks.slots_of(batch.column(0)), batch.column(1).to_numpy()) for batch in again]
        slots, values = self._added_up(told) if told else (np.empty(0, np.intp), np.empty(0, np.int64))
        ranks.take_in(slots, values)
        sent.append(ranks.push(distinct(max(ranks.ids.count, 1), slots, *looked_at), now))
        return self._added_up(sent)

    def _added_up(self, sent: Sequence[tuple[Slots, Numbers]]) -> tuple[Slots, Numbers]:
        slots, values = sent[0]
        if len(sent) > 1:
            slots, values = (np.concatenate(columns) for columns in zip(*sent, strict=True))
        return added_up(slots, values, self._ranks.ids.count)

    def _links_of(self, batch: pa.RecordBatch) -> Links:
        src, dst = (self._ranks.slots_of(batch.column(end)) for end in (0, 1))
        return Links(src, dst, batch.column(2).to_numpy())

    def _batch_of(self, links: Links) -> pa.RecordBatch:
        ends = [self._ranks.ids.ids_of(end) for end in links[:2]]
        return pa.RecordBatch.from_arrays([*ends, pa.array(links.weight)], schema=self._links)
