"""Whether a DataFrame still has the rows that a checkpoint took from it: one aggregate over each.

What is compared is how many rows there are, and sums over a hash of each row, which do not depend on the
order of rows nor on how they are partitioned: Spark promises neither. The rows that were taken lie in the
input log; their fingerprint is computed once and kept beside them, so that going on costs one scan of the
DataFrame. It is kept together with what it depends on, the columns and the version of Spark, and computed
again where these are others.

Maps have no hash in Spark, because the order of their entries says nothing: they are hashed entry by entry.
Of a type that Spark cannot hash at all, only the positions of nulls count.
"""

from typing import Any, Final

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from pointstamp.errors import FlowError
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed import seal, unseal

_KEPT: Final = "_fingerprint"
_NO_HASH: Final = ("variant", "geometry", "geography")
# So that no sum of so many bits leaves 64 of them below 2^39 rows; ANSI mode refuses what does.
_BITS: Final = 24


class Fingerprint(msgspec.Struct, frozen=True):
    """The fingerprint of all rows; ``of`` is what it depends on besides the rows."""

    of: str
    rows: int
    sums: tuple[int, ...]


def check_same_rows(name: str, frame: DataFrame, log: str, storage: Storage) -> None:
    """FlowError if a DataFrame has other rows than those in the log, which were taken from it."""
    of = f"{frame.sparkSession.version} {frame.schema.simpleString()}"
    before = _kept(storage)
    if before is None or before.of != of:
        written = frame.sparkSession.read.schema(frame.schema).parquet(log)
        before = fingerprint_of(written, of)
        storage.write(_KEPT, seal(msgspec.msgpack.encode(before), _KEPT, _KEPT))
    now = fingerprint_of(frame, of)
    if now != before:
        found = f"{now.rows:,}" if now.rows != before.rows else "as many with other values"
        raise FlowError(
            f"input '{name}': this checkpoint has already taken {before.rows:,} rows from it, but the "
            f"DataFrame given now has {found}. A checkpoint continues with the rows it began with: give the "
            "same rows again, or begin with a new checkpoint and a new output. If the DataFrame has other "
            "rows each time it is computed (rand(), a table that grows), write it into a table of its own "
            "first."
        )


def _kept(storage: Storage) -> Fingerprint | None:
    if storage.size(_KEPT) is None:
        return None
    return msgspec.msgpack.decode(unseal(storage.read(_KEPT), _KEPT, _KEPT), type=Fingerprint)


def fingerprint_of(frame: DataFrame, of: str) -> Fingerprint:
    """The number of rows of a DataFrame, and three sums over a hash of each: one job."""
    row = F.col("hash")
    # Nulls are passed over by Spark's hash: without a word on each, a value could change its column unseen.
    columns = [each for column in hashable_columns(frame) for each in (column.isNull(), column)]
    hashed = frame.select(F.xxhash64(*columns).alias("hash"))
    low, high = row.bitwiseAND(F.lit((1 << _BITS) - 1)), F.shiftright(row, 64 - _BITS)
    found: Any = hashed.agg(F.count(F.lit(1)), F.sum(low), F.sum(high), F.bit_xor(row)).first()
    rows, *sums = found
    return Fingerprint(of, rows, tuple(each or 0 for each in sums))  # of no rows they are null


def hashable_columns(frame: DataFrame) -> list[Column]:
    """The columns of a DataFrame as Spark can hash them."""
    # In backquotes, because Spark takes a dot in a name for a field of a struct.
    return [
        _hashable(F.col("`" + field.name.replace("`", "``") + "`"), field.dataType) for field in frame.schema
    ]


def _hashable(column: Column, kind: T.DataType) -> Column:
    """A column of equal values where the given one has equal values, of a type that Spark can hash."""
    if not _has_no_hash(kind):
        return column
    if isinstance(kind, T.MapType):
        hashes = F.transform(
            F.map_entries(column),
            lambda entry: F.xxhash64(
                _hashable(entry["key"], kind.keyType), _hashable(entry["value"], kind.valueType)
            ),
        )
        return F.array_sort(hashes)
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda each: _hashable(each, kind.elementType))
    if isinstance(kind, T.StructType):
        fields = [_hashable(column.getField(field.name), field.dataType) for field in kind.fields]
        return F.struct(column.isNull(), *fields)
    return column.isNull()


def _has_no_hash(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_no_hash(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_has_no_hash(field.dataType) for field in kind.fields)
    return isinstance(kind, T.MapType) or kind.typeName().startswith(_NO_HASH)
