"""Packed rows: DataFrame rows as binary columns for Spark's shuffle.

The inputs of a flow have different schemas, and a gang of tasks reads one DataFrame. So the rows of each
input are packed: a row of the packed DataFrame is (worker, input, epoch, an Arrow batch as bytes). If all
readers of an input exchange it by the same key first, the rows of a batch are split by the owner of their key
here, with the same hash that the workers use: Spark's shuffle then moves each row once, to the worker that
owns it. Otherwise batches are dealt out in turn.

Rows that are refused here do not fail the task: Spark would try it again, and tasks beside it would hold
their slots for seconds after the run. The message travels to a worker, ahead of all rows, and the worker
reports it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pointstamp.arrow.arrays import binaries, integers
from pointstamp.arrow.epoch_column import EpochColumn, by_epoch, with_epochs
from pointstamp.arrow.row_hashing import partition
from pointstamp.arrow.schema import ExtraColumns, fit
from pointstamp.errors import SchemaError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.topology.graph import OperatorGraph
from pointstamp.worker.routes import key_of, routes_of

NO_INPUT: Final = -1
"""In place of an input's number: this row only makes sure that its worker has a partition."""

REFUSED: Final = -2
"""In place of an input's number: rows were refused, and the bytes are the message."""

PACKED_DDL: Final = "worker int, input int, epoch long, rows binary"
PACKED: Final = pa.schema(
    [("worker", pa.int32()), ("input", pa.int32()), ("epoch", pa.int64()), ("rows", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a flow as a gang reads it."""

    number: int
    name: str
    schema: pa.Schema
    keys: tuple[str, ...] | None
    epoch: EpochColumn | None
    extra: ExtraColumns = "warn"

    @property
    def wanted(self) -> pa.Schema:
        """The columns to read: the declared ones, and the epoch column if it is not declared."""
        return with_epochs(self.schema, self.epoch)


def input_specs(plan: Plan, graph: OperatorGraph, epochs: Mapping[str, EpochColumn]) -> list[InputSpec]:
    """The inputs of a plan, with the key that all their readers exchange by, if there is one."""
    routes = routes_of(plan, graph)
    specs = []
    for number, (name, node) in enumerate(plan.named(NodeKind.INPUT).items()):
        keys = key_of(routes[node.index, 0])
        schema, extra = node.outputs[0].schema, node.extra_columns
        specs.append(InputSpec(number, name, schema, keys, epochs.get(name), extra))
    return specs


def packer(spec: InputSpec, workers: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that packs one input, for ``mapInArrow``."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        turn = 0
        for batch in batches:
            packed: list[tuple[int, int, bytes]] = []
            try:
                for epoch, rows in _by_epoch(batch, spec):
                    parts = _parts(rows, spec, workers, turn)
                    packed.extend((worker, epoch, to_bytes(part)) for worker, part in parts)
                    turn += 1
            except SchemaError as error:
                yield _packed(REFUSED, [(0, -1, str(error).encode())])
                return
            if packed:
                yield _packed(spec.number, packed)

    return pack


def _packed(number: int, rows: Sequence[tuple[int, int, bytes]]) -> pa.RecordBatch:
    """Rows of a worker, an epoch and bytes, all of one input."""
    worker, epoch, encoded = zip(*rows, strict=True)
    numbers = integers([number] * len(rows), pa.int32())
    return pa.record_batch(
        [integers(worker, pa.int32()), numbers, integers(epoch, pa.int64()), binaries(encoded)], schema=PACKED
    )


def _by_epoch(batch: pa.RecordBatch, spec: InputSpec) -> Iterator[tuple[int, pa.RecordBatch]]:
    who = f"input '{spec.name}'"
    rows = fit(batch, spec.wanted, who)
    if spec.epoch is None:
        yield 0, rows
    else:
        yield from by_epoch(rows, spec.epoch, spec.schema, who)


def _parts(
    rows: pa.RecordBatch, spec: InputSpec, workers: int, turn: int
) -> Sequence[tuple[int, pa.RecordBatch]]:
    if not rows.num_rows:
        return ()
    if spec.keys is None:
        return ((turn % workers, rows),)
    return [(n, part) for n, part in enumerate(partition(rows, spec.keys, workers)) if part is not None]


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch without its schema, as Arrow IPC."""
    encoded: bytes = batch.serialize().to_pybytes()
    return encoded


def from_bytes(encoded: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of a known schema from Arrow IPC."""
    return pa.ipc.read_record_batch(pa.py_buffer(encoded), schema)
