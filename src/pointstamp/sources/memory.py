"""Rows at hand as a source: for tests, and for small static inputs.

The rows travel with the source to every worker, so this is not for what is large. Each batch is one unit,
named by its number; a position is how many were taken.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pointstamp.dataflow.schema import fit
from pointstamp.sources.once import AllAtOnce
from pointstamp.sources.port import Part, Position, Unit, Watch


@dataclass(frozen=True, slots=True)
class Rows:
    """Batches that are all there from the beginning, each one a unit; a watch is finished when it gave them.

    >>> source = Rows((pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3]})))
    >>> [unit.name for unit in source.watch(1).poll()]
    ['1']
    """

    batches: tuple[pa.RecordBatch, ...]
    units_per_tick: int | None = 1

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """The units after so many."""
        taken: int = position or 0
        return AllAtOnce([self._unit(number) for number in range(taken, len(self.batches))])

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of one batch, or a share of them."""
        number, ways = part.share or (0, 1)
        batch = self.batches[int(part.locator)]
        start, stop = number * batch.num_rows // ways, (number + 1) * batch.num_rows // ways
        if start < stop:
            chosen = batch.select([name for name in batch.schema.names if name in schema.names])
            yield fit(chosen.slice(start, stop - start), schema, f"{self.describe()}, batch {part.locator}")

    def after(self, position: Position, unit: Unit) -> int:
        """The number of units up to this one."""
        return max(position or 0, int(unit.name) + 1)

    def describe(self) -> str:
        """Who this is, for messages."""
        return f"rows ({len(self.batches)} batches)"

    def _unit(self, number: int) -> Unit:
        return Unit(str(number), (Part(str(number), self.batches[number].nbytes, (0, 1)),))
