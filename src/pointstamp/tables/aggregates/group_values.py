"""The values of one aggregate, by group: what every aggregate of tables is worked out from.

Invariant: values of one group stand together, groups in ascending order; no weight is 0.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.reduce.binding import plain_type
from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.ordering import Ranks
from pointstamp.tables.kept.weights import DIFF, Integers

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class GroupValues:
    """The rows of groups that take part in an aggregate, and what of them it looks at."""

    values: pa.Array
    """A value of each row, without encodings; nulls are among them only where they count."""
    rows: pa.RecordBatch
    group: Places
    """The group of each row."""
    weights: Integers
    count: int
    """How many groups there are, with those that have no row here."""

    def __len__(self) -> int:
        return len(self.group)

    def starts(self) -> Places:
        """Where each group begins that has a row here."""
        return firsts_of(self.group)

    def present(self) -> Places:
        """The groups that have a row here."""
        return self.group[self.starts()]

    def kept(self, mask: pa.Array) -> "GroupValues":
        """The rows for which a boolean is true."""
        positions = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        if len(positions) == len(self):
            return self
        at = pa.array(positions)
        values, rows = self.values.take(at), self.rows.take(at)
        return GroupValues(values, rows, self.group[positions], self.weights[positions], self.count)

    def order(self, *ranks: Ranks) -> Places:
        """The rows by group, and in a group by these ranks, the first of which matters most."""
        return np.lexsort((*reversed(ranks), self.group))

    def spread(self, made: pa.Array) -> pa.Array:
        """What was made for each group that is present, for all groups: null for the others."""
        if len(made) == self.count:
            return made
        place = np.full(self.count, -1)
        place[self.present()] = np.arange(len(made))
        return made.take(pa.array(place, mask=place < 0))


def values_of(groups: Grouped, column: str | None) -> GroupValues:
    """All rows of groups with the values of a column; without one each row counts, whatever its value."""
    count = len(groups.starts)
    group = np.repeat(np.arange(count), np.diff(groups.starts, append=groups.rows.num_rows))
    values = groups.rows.column(DIFF if column is None else column)
    return GroupValues(plain(values), groups.rows, group, groups.rows.column(DIFF).to_numpy(), count)


def firsts_of(ranked: npt.NDArray[np.integer]) -> Places:
    """Where each run of equal numbers begins."""
    if not len(ranked):
        return np.empty(0, np.intp)
    return np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))


def plain(values: pa.Array) -> pa.Array:
    """The same values without encodings and views."""
    if types.is_run_end_encoded(values.type):
        return plain(pc.run_end_decode(values))
    wanted = plain_type(values.type)
    return values if wanted is values.type else values.cast(wanted)
