"""Rows that lie in several batches, known by their places, and copied only where they are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.tables.kept.sorting import Positions


@dataclass(frozen=True, slots=True)
class Scattered:
    """Rows of batches with the same columns: of which batch each is, and where it stands there."""

    batches: Sequence[pa.RecordBatch]
    """At least one."""
    batch_of: Positions
    at: Positions

    def __len__(self) -> int:
        return len(self.at)

    def only(self, rows: Positions) -> "Scattered":
        """Some of these rows, or all in another order; nothing is copied but their places."""
        return Scattered(self.batches, self.batch_of[rows], self.at[rows])

    def taken(self, rows: Positions) -> pa.RecordBatch:
        """Some of these rows as a batch of their own."""
        batch_of, at = self.batch_of[rows], self.at[rows]
        parts, places = [], []
        for number, batch in enumerate(self.batches):
            here = (batch_of == number).nonzero()[0]
            if len(here):
                parts.append(pc.take(batch, pa.array(at[here]), boundscheck=False))
                places.append(here)
        if len(parts) < 2:
            return parts[0] if parts else self.batches[0].slice(0, 0)
        back = np.empty(len(rows), np.intp)
        back[np.concatenate(places)] = np.arange(len(rows))
        return pc.take(pa.concat_batches(parts), pa.array(back), boundscheck=False)
