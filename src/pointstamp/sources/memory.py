"""In-memory rows as a source, for tests and small inputs.

The rows travel with the source to every worker, so this is not for what is large. Each batch is one unit,
named by its number, its rows and their fingerprint. A position is how many were taken, with how many rows,
and a fingerprint of them all: a run that continues with other rows than it began with is refused, because its
result would belong to neither. More batches may follow those that were taken.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.rows.schema import fit
from pointstamp.sources.fingerprint import fingerprint
from pointstamp.sources.once import AllAtOnce
from pointstamp.sources.port import Part, Position, SourceBase, Unit, Watch
from pointstamp.sources.provenance import Identity


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
