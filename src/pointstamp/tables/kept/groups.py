"""Groups: the rows of some keys, added up, those of each key side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.tables.kept.run import Layout, run_of
from pointstamp.tables.kept.run_keys import groups_of
from pointstamp.tables.kept.weights import DIFF, with_weights


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of some keys, added up, the rows of each key together."""

    rows: pa.RecordBatch
    starts: npt.NDArray[np.intp]
    """Where each group begins; every group has a row."""
    keys: pa.RecordBatch
    """The key of each group."""


GroupFunction: TypeAlias = Callable[[Grouped], pa.RecordBatch]
"""From groups to the rows that come out for them, with weights."""


def distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    """Each key once."""
    counted = with_weights(keys, np.ones(keys.num_rows, np.int64))
    return run_of(counted, Layout(counted.schema, tuple(keys.schema.names))).batch.select(keys.schema.names)


def grouped(batch: pa.RecordBatch, keys: Sequence[str], weights: Sequence[str] = (DIFF,)) -> Grouped:
    """Rows added up and brought together by key; groups without a row are not there."""
    run = run_of(batch, Layout(batch.schema, tuple(keys), tuple(weights)))
    firsts, group = groups_of(run)
    rows = run.batch
    own = rows.select(list(keys)).take(pa.array(firsts))
    if len(group) and (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        rows, group = rows.take(pa.array(order)), group[order]
    starts = np.searchsorted(group, np.arange(len(firsts)))
    return Grouped(rows, starts, own)
