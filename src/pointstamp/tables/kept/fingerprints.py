"""Fingerprints: 16 bytes that stand for a row, where it is only asked how often a row is there.

They are two hashes of the whole row. Two rows with one fingerprint come about once in 2^127 pairs; among ten
billion rows that is less likely than that memory fails unseen. It does not protect against an attacker who
chooses rows to collide. The first one is kept as the integer that has this hash, so that a saved fingerprint
belongs to the worker to which the exchange by all columns brings the row.

A row of at most 16 bytes is no longer than its fingerprint and stands for itself. So does one with a map: its
entries have no order in a hash, and two rows whose entries differ in order are two rows.
"""

from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.rows.hashing import OTHER, fold_columns, hash_array
from pointstamp.rows.mixing import unmixed
from pointstamp.tables.kept.run import Run
from pointstamp.tables.kept.weights import DIFF_FIELD

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


def fingerprints_of(run: Run) -> pa.RecordBatch:
    """The fingerprints of a run whose key is the whole row, with its weights."""
    assert run.layout.is_by_row
    columns = [hash_array(column, OTHER) for column in run.rows.columns]
    other = unmixed(fold_columns(columns, len(run), OTHER))
    arrays = [pa.array(unmixed(run.words[0])), pa.array(other), pa.array(run.weights)]
    return pa.RecordBatch.from_arrays(arrays, schema=FINGERPRINTS)


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
