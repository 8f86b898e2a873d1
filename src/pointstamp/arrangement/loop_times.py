"""Times inside loops: the rounds of stored rows, as columns.

Epochs are taken one after the other, and what is stored of those that are over is consolidated, so a stored
row has no epoch. It keeps its rounds: a row of round 7 is not there in round 2, in no epoch. Two rows meet at
the least upper bound of their rounds, coordinate by coordinate. Outside loops there are no rounds, and
nothing here costs anything.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.column_arrays import KeptColumn, taken
from pointstamp.arrangement.consolidate import DIFF, Integers, Positions

Rounds = tuple[int, ...]


def round_names(count: int) -> list[str]:
    """The columns of the rounds; no column of a user's table may be called so."""
    return [f"__round_{number}" for number in range(count)]


def is_round_name(name: str) -> bool:
    """Return whether a column is called as those of the rounds are."""
    return name.startswith("__")


def stored_schema(schema: pa.Schema, rounds: int, weights: Sequence[str] = (DIFF,)) -> pa.Schema:
    """The columns of a table as they are stored: its own, the rounds, the weights."""
    own = [field for field in schema if field.name not in weights]
    counted = [pa.field(name, pa.int64()) for name in round_names(rounds)]
    return pa.schema([*own, *counted, *(schema.field(name) for name in weights)])


def counted_at(batch: pa.RecordBatch, rounds: Rounds, weights: Sequence[str] = (DIFF,)) -> pa.RecordBatch:
    """The rows of one time with its rounds, as they are stored."""
    if not rounds:
        return batch
    own = [batch.column(name) for name in batch.schema.names if name not in weights]
    columns = [pa.array(np.full(batch.num_rows, each)) for each in rounds]
    last = [batch.column(name) for name in weights]
    return pa.RecordBatch.from_arrays(
        [*own, *columns, *last], schema=stored_schema(batch.schema, len(rounds), weights)
    )


def rounds_of(batch: pa.RecordBatch, count: int) -> npt.NDArray[np.int64]:
    """The rounds of stored rows, a row of the result for each."""
    if not count:
        return np.empty((batch.num_rows, 0), np.int64)
    return np.stack([batch.column(name).to_numpy() for name in round_names(count)], axis=1)


def up_to(batch: pa.RecordBatch, rounds: Rounds) -> pa.RecordBatch:
    """The stored rows that exist at these rounds, without their rounds."""
    if not rounds:
        return batch
    names = [name for name in batch.schema.names if name not in round_names(len(rounds))]
    is_there = (rounds_of(batch, len(rounds)) <= np.array(rounds)).all(axis=1)
    return batch.filter(pa.array(is_there)).select(names)


def kept_rounds(columns: Sequence[KeptColumn], weights: int, count: int) -> npt.NDArray[np.int64]:
    """The rounds of stored rows, by their columns: they stand before so many weights."""
    if not count:
        return np.empty((len(columns[-1]), 0), np.int64)
    end = len(columns) - weights
    return np.stack([np.asarray(column, np.int64) for column in columns[end - count : end]], axis=1)


def kept_up_to(
    columns: Sequence[KeptColumn], weights: int, rounds: Rounds
) -> tuple[list[KeptColumn], Positions | None]:
    """The columns without rounds of the stored rows that are there at these, and which rows; None if all."""
    end = len(columns) - weights
    own = [*columns[: end - len(rounds)], *columns[end:]]
    if not rounds:
        return own, None
    is_there = (kept_rounds(columns, weights, len(rounds)) <= np.array(rounds)).all(axis=1)
    if is_there.all():
        return own, None
    at = np.flatnonzero(is_there)
    return [taken(column, at) for column in own], at


def by_rounds(rounds: Integers) -> list[tuple[Rounds, npt.NDArray[np.intp]]]:
    """The rows of each round, the least round first."""
    if rounds.shape[1] == 1:  # which is many times as fast as by rows
        numbers = rounds[:, 0]
        return [((each,), np.flatnonzero(numbers == each)) for each in np.unique(numbers).tolist()]
    distinct, which = np.unique(rounds, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [
        (tuple(int(each) for each in row), np.flatnonzero(which == number))
        for number, row in enumerate(distinct)
    ]
