"""Operator state as rows that can be saved and rescaled.

An operator's state is a set of named *pieces*, each an Arrow table. A piece says by which columns its rows
belong to workers, with the same hash as the exchange, so that the rows that a worker gets back are those of
the keys that will come to it, however many workers there are now. A piece may be *complete*, or hold only the
rows that changed since the last one: then it says which columns make two rows versions of the same, or that
rows with weights are *summed*, and then all of them count.

State is saved at a closed epoch: everything up to it has been handled, and nothing of later ones. So what is
saved is the state after a prefix of epochs, which is the selective rollback of Abadi and Isard (2015) with
epochs as the times that are kept, and the snapshot of Veresov et al. (2024). Messages in flight, capabilities
and notifications are not in here: the caller that saves an operator has those.

Where as many workers continue as have saved, each gets back the rows that it saved itself. Where there are
more or fewer, each gets those of all savers that are its own by the keys. An operator must resume from
either.

Invariant: each row that counts is ``owned`` by exactly one worker, the one to which the exchange by its keys
brings all rows that have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrow.key_index import KeyIndex
from pointstamp.arrow.row_hashing import hash_columns, worker_of
from pointstamp.errors import RecoveryError
from pointstamp.operators.context import Context


@dataclass(frozen=True, slots=True)
class Piece:
    """Saved rows of an operator's state; the table is immutable."""

    table: pa.Table
    keys: tuple[str, ...] | None
    """By which columns a row belongs to a worker; None: it belongs to the worker that saved it. No columns,
    (): every worker knows the same, and each gets what all of them have saved."""
    identity: tuple[str, ...] = ()
    """A later row replaces earlier ones that agree in these columns."""
    is_whole: bool = True
    """Whether these are all rows, or only those that changed since the last time."""
    adds_up: bool = False
    """Whether all rows since the last complete piece count, and none replaces another."""

    def __post_init__(self) -> None:
        assert self.is_whole or self.identity or self.adds_up, "changes need an identity, or must be summed"
        assert not (self.identity and self.adds_up), "rows that are summed replace none"
        columns = (*(self.keys or ()), *self.identity)
        assert set(columns) <= set(self.table.column_names), f"{columns} in {self.table.column_names}"


@runtime_checkable
class Stateful(Protocol):
    """An operator that saves its state and resumes from it."""

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Return the current pieces, always under the same names.

        Nothing in it may change when the operator continues, for it is written later. With ``changes_only`` a
        piece may hold the rows that changed since the last save, whichever kind that was; it need not.
        """
        ...

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Resume with these rows of this worker; called instead of ``on_start``."""
        ...


def merged(pieces: Sequence[Piece]) -> pa.Table:
    """The rows that count of what one worker has saved, one piece after the other.

    Those before the last complete piece do not count; of the others, the last row of each identity does, or
    all of them if rows are summed.

    >>> first = Piece(pa.table({"id": [1, 2], "n": [10, 20]}), ("id",), ("id",))
    >>> then = Piece(pa.table({"id": [3, 1], "n": [30, 11]}), ("id",), ("id",), is_whole=False)
    >>> merged([first, then]).to_pydict()
    {'id': [2, 3, 1], 'n': [20, 30, 11]}
    >>> change = Piece(pa.table({"id": [1], "diff": [-1]}), ("id",), is_whole=False, adds_up=True)
    >>> merged([Piece(pa.table({"id": [1], "diff": [2]}), ("id",), adds_up=True), change]).to_pydict()
    {'id': [1, 1], 'diff': [2, -1]}
    """
    begin = max((number for number, piece in enumerate(pieces) if piece.is_whole), default=None)
    if begin is None:
        raise RecoveryError(
            f"the saved state has {len(pieces)} pieces, all of them incremental; one must be complete. "
            "Restore from a snapshot whose first piece still exists."
        )
    counting = pieces[begin:]
    if len(counting) == 1:
        return counting[0].table
    table = pa.concat_tables([piece.table for piece in counting])
    if counting[-1].adds_up:
        return table
    return table.take(pa.array(_last_rows(table.select(counting[-1].identity))))


def owners(table: pa.Table, keys: Sequence[str], workers: int) -> npt.NDArray[np.intp]:
    """The worker that each row belongs to, out of this many, as the exchange by these columns decides."""
    batches = table.select(list(keys)).to_batches()
    parts = [worker_of(hash_columns(batch, list(keys)), workers) for batch in batches]
    return np.concatenate(parts) if parts else np.empty(0, np.intp)


def owned(table: pa.Table, keys: Sequence[str], worker: int, workers: int) -> pa.Table:
    """The rows that belong to a worker.

    >>> table = pa.table({"id": [1, 2, 3, 4]})
    >>> [owned(table, ["id"], worker, 2)["id"].to_pylist() for worker in range(2)]
    [[3, 4], [1, 2]]
    """
    if workers == 1:
        return table
    return table.filter(pa.array(owners(table, keys, workers) == worker))


def _last_rows(identity: pa.Table) -> npt.NDArray[np.intp]:
    """The last row of each distinct value, ascending."""
    index = KeyIndex(identity.schema)
    slots = [index.slots(batch) for batch in identity.to_batches()]
    last = np.empty(len(index), np.intp)
    # Of several rows of one slot the last one is written last.
    last[np.concatenate([np.empty(0, np.intp), *slots])] = np.arange(identity.num_rows)
    last.sort()
    return last
