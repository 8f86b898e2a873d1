"""In-memory rows as a source, for tests and small inputs.

The rows travel with the source to every worker, so this is not for what is large. Each batch is one unit,
named by its number, its rows and their fingerprint. A position is how many were taken, with how many rows,
and a fingerprint of them all: a run that continues with other rows than it began with is refused, because its
result would belong to neither. More batches may follow those that were taken.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrow.row_hashing import hash_array
from pointstamp.arrow.schema import fit
from pointstamp.connectors.source import AllAtOnce, Identity, Part, Position, SourceBase, Unit, Watch
from pointstamp.errors import FlowError, SchemaError


@dataclass(frozen=True, slots=True)
class Rows(SourceBase):
    """Batches that are all there from the beginning, each one a unit; a watch is finished when it gave them.

    ``name`` is that of the input, for messages. ``epochs`` are those of the batches, in order, if the rows
    have an epoch column: then each batch is known to complete all epochs before the next one's.

    >>> source = Rows((pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3]})))
    >>> first, second = source.watch(None).poll()
    >>> source.watch(source.after(None, first)).poll() == [second]
    True
    """

    batches: tuple[pa.RecordBatch, ...]
    units_per_tick: int | None = 1
    name: str = ""
    epochs: tuple[int, ...] | None = None

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """The units after those that were taken; FlowError if other rows were taken."""
        taken = 0 if position is None else position[0]
        units = [self._unit(number) for number in range(len(self.batches))]
        now: Position = None
        for unit in units[:taken]:
            now = self.after(now, unit)
        if position is not None and now != tuple(position):
            raise self._other_rows(tuple(position), now)
        return AllAtOnce(units[taken:])

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of one batch, or a share of them."""
        number, ways = part.share or (0, 1)
        batch = self.batches[int(part.locator)]
        start, stop = number * batch.num_rows // ways, (number + 1) * batch.num_rows // ways
        if start < stop:
            chosen = batch.select([name for name in batch.schema.names if name in schema.names])
            yield fit(chosen.slice(start, stop - start), schema, f"{self.describe()}, batch {part.locator}")

    def after(self, position: Position, unit: Unit) -> tuple[int, int, str]:
        """Return the position after this unit: units, rows and their fingerprint."""
        _, rows, seen = position or (0, 0, "")
        number, its_rows, its_fingerprint = unit.name.split(":")
        both = hashlib.blake2b(f"{seen}:{its_fingerprint}".encode(), digest_size=8)
        return int(number) + 1, rows + int(its_rows), both.hexdigest()

    def identity(self) -> Identity:
        """A checkpoint compares the rows themselves, by their fingerprint."""
        return {"kind": "rows at hand"}

    def describe(self) -> str:
        """A description for messages."""
        return f"rows ({len(self.batches)} batches)"

    def _unit(self, number: int) -> Unit:
        batch = self.batches[number]
        name = f"{number}:{batch.num_rows}:{fingerprint(batch)}"
        least = None if self.epochs is None else self.epochs[number]
        return Unit(name, (Part(str(number), batch.nbytes, (0, 1)),), least)

    def _other_rows(self, before: tuple[int, int, str], now: tuple[int, int, str] | None) -> FlowError:
        taken, rows, _ = before
        items, rows_now, _ = now or (0, 0, "")
        if items < taken:
            found = f"{_count(items, 'item')} with {_count(rows_now, 'row')}"
        elif rows_now != rows:
            found = f"{_count(rows_now, 'row')} in place of these"
        else:
            found = "as many rows with other values"
        who = f"input '{self.name}'" if self.name else self.describe()
        return FlowError(
            f"{who}: this checkpoint has already taken {_count(taken, 'item')} with {_count(rows, 'row')}, "
            f"but the data given now has {found}. A checkpoint continues with the same rows, and with rows "
            "that are added after them: give the same rows again, or begin with a new checkpoint and a new "
            "output."
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# A fingerprint of in-memory rows, to detect a changed input.
#
# Equal rows in the same order have the same fingerprint, in every process, slice and encoding of nulls: only
# values count, never what Arrow leaves under a null, before an offset or behind an end. Other rows have
# another one, but for a chance of about one in 2^63. It finds mistakes, and does not protect against an
# attacker who makes rows to collide.
#
# It costs about a nanosecond for eight bytes, a small part of what it takes to send them through any flow.
# Large buffers are therefore condensed first: each block of words becomes one, the sum of all with a weight
# for each place. Weights are odd, so that a change of one word always shows; words are folded before, or the
# many zeros at the end of round floats would leave few bits to tell two places apart. Columns of types other
# than plain numbers and text are hashed value by value (``dataflow/hashing.py``), which is slower; of a type
# that has no hash, only the positions of nulls count.

Bytes: TypeAlias = npt.NDArray[np.uint8]

_BLOCK_WORDS: Final = 8_192
_WEIGHTS: Final = hash_array(pa.array(np.arange(_BLOCK_WORDS))) | np.uint64(1)
_HALF: Final = np.uint64(32)


def fingerprint(batch: pa.RecordBatch) -> str:
    """Sixteen letters that are the same for equal rows in the same order, and hardly ever for others.

    >>> a, b = pa.record_batch({"x": [7, 1, 2]}), pa.record_batch({"x": [1, 2]})
    >>> fingerprint(a.slice(1)) == fingerprint(b), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for column in batch.columns:
        for piece in _pieces(column):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(_condensed(piece))
    digest.update(batch.num_rows.to_bytes(8, "little"))
    return digest.hexdigest()


def _pieces(column: pa.Array) -> Iterator[Bytes]:
    """The values of a column as bytes that depend on them alone, and where its nulls are."""
    if column.null_count:
        yield _numbers(column.is_valid().cast(pa.uint8()))
        column = column.drop_null()
    kind = column.type
    if types.is_primitive(kind) and not types.is_boolean(kind):
        yield _numbers(column)
    elif types.is_string(kind) or types.is_binary(kind):
        yield from _texts(column, np.dtype(np.int32))
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        yield from _texts(column, np.dtype(np.int64))
    else:
        yield from _others(column)


def _numbers(column: pa.Array) -> Bytes:
    """The bytes of values that are stored one after the other, all of one width."""
    width = column.type.bit_width // 8
    return _bytes(column.buffers()[1], column.offset * width, len(column) * width)


def _texts(column: pa.Array, offset: np.dtype[np.signedinteger]) -> Iterator[Bytes]:
    """The lengths of all strings, followed by the strings."""
    _, offsets, data = column.buffers()
    if len(column) == 0 or offsets is None:
        return  # an array without rows may leave its offsets out
    bounds = np.frombuffer(offsets, offset, len(column) + 1, column.offset * offset.itemsize)
    yield np.diff(bounds).view(np.uint8)
    yield _bytes(data, int(bounds[0]), int(bounds[-1] - bounds[0]))


def _others(column: pa.Array) -> Iterator[Bytes]:
    try:
        yield hash_array(column).view(np.uint8)
    except SchemaError:
        return  # a type without a hash: that there are so many is all that is known of it


def _bytes(buffer: pa.Buffer | None, first: int, size: int) -> Bytes:
    return np.zeros(size, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, size, first)


def _condensed(piece: Bytes) -> bytes:
    """A word for each complete block of words, and what is left as it is."""
    whole = len(piece) // (8 * _BLOCK_WORDS)
    words = piece[: whole * 8 * _BLOCK_WORDS].view("<u8").reshape(whole, _BLOCK_WORDS)
    sums = np.empty(whole, np.uint64)
    folded = np.empty(_BLOCK_WORDS, np.uint64)  # one for all blocks, so that it stays in the nearest cache
    for number, block in enumerate(words):
        np.right_shift(block, _HALF, out=folded)
        np.bitwise_xor(folded, block, out=folded)
        np.multiply(folded, _WEIGHTS, out=folded)
        sums[number] = folded.sum()
    return sums.tobytes() + piece[whole * 8 * _BLOCK_WORDS :].tobytes()
