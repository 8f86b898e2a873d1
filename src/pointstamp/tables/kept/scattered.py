"""Rows that lie in several runs, known by their places, and copied only where they are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.tables.kept.columns import KeptColumn, as_batch, equal_kept, taken, together
from pointstamp.tables.kept.sorting import Positions


@dataclass(frozen=True, slots=True)
class Scattered:
    """Rows of several parts with the same columns: of which part each is, and where it stands there."""

    schema: pa.Schema
    parts: Sequence[Sequence[KeptColumn]]
    """The columns of each part; there is at least one where rows are looked at."""
    part_of: Positions
    at: Positions

    def __len__(self) -> int:
        return len(self.at)

    def only(self, rows: Positions) -> "Scattered":
        """Some of these rows, or all in another order; nothing is copied but their places."""
        return Scattered(self.schema, self.parts, self.part_of.take(rows), self.at.take(rows))

    def taken(self, rows: Positions) -> pa.RecordBatch:
        """Some of these rows as a batch of their own."""
        return as_batch(self.columns(rows), self.schema)

    def columns(self, rows: Positions) -> list[KeptColumn]:
        """The columns of some of these rows."""
        part_of, at = self.part_of.take(rows), self.at.take(rows)
        found = []
        for number, part in enumerate(self.parts):
            here = (part_of == number).nonzero()[0]
            if len(here) == len(rows):
                return [taken(column, at) for column in part]
            if len(here):
                found.append((here, [taken(column, at.take(here)) for column in part]))
        if not found:
            return [taken(column, at) for column in self.parts[0]]
        back = np.empty(len(rows), np.intp)
        back[np.concatenate([here for here, _ in found])] = np.arange(len(rows))
        return [
            taken(together([values[number] for _, values in found], kind), back)
            for number, kind in enumerate(self.schema.types)
        ]

    def equal(self, these: Positions, those: Positions) -> npt.NDArray[np.bool_]:
        """Whether each of these rows equals the one of those beside it."""
        columns = self.columns(np.concatenate((these, those)))
        pairs = np.arange(len(these))
        return equal_kept(columns, pairs, columns, pairs + len(these), self.schema.types)
