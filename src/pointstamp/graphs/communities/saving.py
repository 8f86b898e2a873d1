"""Save and restore labels and links of label propagation.

The labels of a worker's vertices and of their neighbours are saved: where as many workers continue, each gets
its own back, and where there are more or fewer all get all, of which those by the owners count.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.graphs.arrays.slots import Ids
from pointstamp.graphs.ranks.link_runs import Numbers
from pointstamp.ports import Piece, saved

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
