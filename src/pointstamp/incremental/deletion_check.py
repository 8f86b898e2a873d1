"""The border of a table: a row that is deleted must be there.

What comes with weights from outside can be wrong, and a sum below zero would go through every operation as if
it were right: the answers would be wrong without a word. So the border keeps how often each row is there, and
refuses the first change that would leave less than nothing of a row, before anything of its epoch continues.
Complete rows are compared, also in columns that are not used later; of long ones only a fingerprint is kept.

Invariant: what has been sent up to every epoch, consolidated, has no weight below zero.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF_FIELD, Integers, Positions, columns_without_weight
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrangement.run import Layout, Run, run_and_rows
from pointstamp.arrow.row_hashing import OTHER, fold_columns, hash_kept, unmixed
from pointstamp.errors import FlowError
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey
from pointstamp.operators.context import Context
from pointstamp.operators.interface import PassesOn
from pointstamp.state.pieces import Piece


class Border(PassesOn):
    """Sends the changes of an epoch when they are all there, if they delete nothing that is not."""

    keeps: ClassVar = (
        "at most 16 bytes of each row and how often it is there, to refuse a deletion of what is not there; "
        "a change costs its rows"
    )

    def __init__(self, schema: pa.Schema, *, arranged: Mapping[str, TableByKey]) -> None:
        self._layout = Layout(schema, tuple(columns_without_weight(schema)))
        self._has_fingerprints = has_fingerprints(schema)
        kept = FINGERPRINTS if self._has_fingerprints else schema
        self._rows = Arrangement(kept, columns_without_weight(kept))
        self._arrangements = Arrangements({"rows": self._rows}, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Check the change of the epoch, add it and send it."""
        for change in self._open.take_runs(context.time, {"in": self._layout}).values():
            kept, rows = self._kept_of(change)
            self._check(context, change, kept, rows)
            self._rows.add_run(kept)
            context.send(change.batch)

    def _kept_of(self, change: Run) -> tuple[Run, Positions]:
        """What is kept of a change, and for each row of that one that it is of in the change."""
        if not self._has_fingerprints:
            return change, np.arange(len(change))
        return run_and_rows(fingerprints_of(change), self._rows.layout)

    def _check(self, context: Context, change: Run, kept: Run, rows: Positions) -> None:
        deleted = (kept.weights < 0).nonzero()[0]
        if not len(deleted):
            return
        weights = kept.weights[deleted]
        there = self._rows.weights_of(kept, deleted)
        missing = np.flatnonzero(there + weights < 0)
        if len(missing):
            first = int(missing[0])
            row = change.rows.slice(int(rows[deleted[first]]), 1).to_pylist()[0]
            raise FlowError(
                f"operator '{context.operator}': epoch {context.epoch} deletes {-weights[first]} of row "
                f"{row}, of which the table contains {there[first]}. Delete a row at most as often as it "
                "was inserted, with the same values."
            )

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows that are there, or their fingerprints, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        pieces = self._arrangements.save(changes_only=changes_only)
        if self._has_fingerprints:
            return {name: replace(piece, keys=(OWNER,)) for name, piece in pieces.items()}
        return pieces

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._arrangements.load(context.operator, pieces)


# Fingerprints: 16 bytes that stand for a row, where it is only asked how often a row is there.
#
# They are two hashes of the whole row. Two rows with one fingerprint come about once in 2^127 pairs; among
# ten billion rows that is less likely than that memory fails unseen. It does not protect against an attacker
# who chooses rows to collide. The first one is kept as the integer that has this hash, so that a saved
# fingerprint belongs to the worker to which the exchange by all columns brings the row.
#
# A row of at most 16 bytes is no longer than its fingerprint and stands for itself. So does one with a map:
# its entries have no order in a hash, and two rows whose entries differ in order are two rows.

OWNER: Final = "row"
"""The column by which a fingerprint belongs to a worker."""
FINGERPRINTS: Final = pa.schema([(OWNER, pa.int64()), ("other", pa.int64()), DIFF_FIELD])

_BITS_MAX: Final = 128


def has_fingerprints(schema: pa.Schema) -> bool:
    """Whether rows have fingerprints that are shorter; the last column is their weight."""
    columns = list(schema)[:-1]
    if any(_has_map(field.type) for field in columns):
        return False
    return sum(_bits(field.type) for field in columns) > _BITS_MAX


def fingerprints_of(run: Run) -> list[Integers]:
    """The fingerprints of a run whose key is the complete row, with its weights."""
    assert run.layout.is_by_row
    other = fold_columns(hash_kept(run.identity, OTHER), len(run), OTHER)
    return [unmixed(run.words[0]), unmixed(other), run.weights]


def _bits(kind: pa.DataType) -> int:
    """How long a value is; longer than a fingerprint if that depends on the value."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return _BITS_MAX + 1


def _has_map(kind: pa.DataType) -> bool:
    if types.is_map(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _has_map(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _has_map(kind.value_type)
    return any(_has_map(kind.field(number).type) for number in range(kind.num_fields))
