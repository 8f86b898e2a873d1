"""Save and restore labels with the vertices that follow them."""

from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.graphs.components.pairs import Pairs
from pointstamp.ports import saved

LABELS: Final = pa.schema([("vertex", pa.int64()), ("component", pa.int64())])


def followers_of(labels: Pairs, members: pa.Table, worker: int, workers: int) -> Pairs:
    """One member of each label of mine for each other worker that has any.

    Among the members are some of labels of others, where the same workers continue and each has what it
    saved, and some of labels that are none any more, because no message reports when a follower is freed.
    """
    pairs = pairs_of(members)
    still = np.isin(pairs.other, labels.vertex[labels.vertex == labels.other])
    owner = saved.owners(members, ("vertex",), workers)
    away = np.flatnonzero(still & (owner != worker))
    order = away[np.lexsort((owner[away], pairs.other[away]))]
    label, owner = pairs.other[order], owner[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (label[1:] != label[:-1]) | (owner[1:] != owner[:-1])
    return Pairs(pairs.vertex[order[is_first]], label[is_first])


def pairs_of(labels: pa.Table) -> Pairs:
    """Labels of a table as arrays."""
    return Pairs(*(labels.column(name).to_numpy() for name in LABELS.names))
