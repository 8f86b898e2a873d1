"""An input of a flow whose workers are other processes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from pointstamp.flow.plan import Node
from pointstamp.mesh.wire import BatchFormat, TimeFormat
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.rows.late import LATE_PORT
from pointstamp.rows.partition import partition
from pointstamp.rows.schema import input_batches
from pointstamp.running.messages import AdvanceInput, CloseInput, Order, SendRows
from pointstamp.topology.graph import OperatorGraph
from pointstamp.worker.input import InputHandle
from pointstamp.worker.instance import Instance

SLICE_ROWS_MIN: Final = 1_024
"""A batch is cut into slices, one for each worker, where every slice has at least so many rows.

One with fewer rows is split by key instead, where all who read it exchange it by that key first: then it
takes one trip less. A large one is split by the workers, who have more hands.
"""
SLICE_ROWS_MAX: Final = 131_072
"""No slice has more rows: workers begin with the first while the next are on their way."""


class Orders(Protocol):
    """The run interface of an input: sends orders to workers."""

    times: TimeFormat

    def order(self, worker: int, order: Order, bodies: Sequence[pa.Buffer] = (), /) -> None:
        """Send an order to one worker."""
        ...

    def order_all(self, order: Order, /) -> None:
        """Send an order to every worker."""
        ...


class ProcessInput:
    """One input of a flow for all its workers: batches go to them in slices or in turn, times to all.

    ``keys`` are those by which all who read it exchange it first; small batches go straight to their owners.
    """

    def __init__(
        self,
        run: "Orders",
        node: Node,
        graph: OperatorGraph,
        workers: int,
        *,
        keys: Sequence[str] | None = None,
    ) -> None:
        # A handle of our own keeps the time and refuses what cannot be, with the words of every other run.
        instance = Instance(node, graph, WorkerIndex(0), 1, lambda _: ())
        self._outputs = instance.outputs
        self._handle = InputHandle(instance, lambda _, __: None)
        self._rows = [BatchFormat(output.schema) for output in instance.outputs]
        self._run = run
        self._workers = workers
        self._keys = keys
        self._turn = 0
        self.name = node.name
        self._schema, self._extra = node.outputs[0].schema, node.extra_columns

    @property
    def time(self) -> Any:  # noqa: ANN401 - the root time
        """The time at which batches are sent now."""
        return self._handle.time

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._handle.is_closed

    def send(self, data: Any, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return how many bytes they have."""
        port = LATE_PORT if late else 0
        rows = [data] if late else input_batches(data, self._schema, f"input '{self.name}'", self._extra)
        for each in rows:
            self._handle.send(each, late=late)
        batches = [batch for _, batch in self._outputs[port].sent]
        self._outputs[port].sent.clear()
        for batch in batches:
            are_own = self._are_split(batch, port)
            for worker, part in self._parts(batch, are_own=are_own):
                order = SendRows(self.name, late, are_own)
                self._run.order(worker, order, [self._rows[port].encode(part)])
        return sum(batch.nbytes for batch in batches)

    def _are_split(self, batch: pa.RecordBatch, port: int) -> bool:
        """Whether the rows of a batch go to the owners of their keys."""
        is_small = -(-batch.num_rows // self._workers) < SLICE_ROWS_MIN
        return is_small and self._keys is not None and port != LATE_PORT

    def _parts(self, batch: pa.RecordBatch, *, are_own: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Who gets which rows of a batch."""
        if are_own and self._keys is not None:
            parts = partition(batch, self._keys, self._workers)
            yield from ((worker, part) for worker, part in enumerate(parts) if part is not None)
            return
        share = -(-batch.num_rows // self._workers)
        size = min(share if share >= SLICE_ROWS_MIN else batch.num_rows, SLICE_ROWS_MAX)
        for start in range(0, batch.num_rows, size):
            yield self._turn, batch.slice(start, size)
            self._turn = (self._turn + 1) % self._workers

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        """Promise that no rows follow before this time; workers are informed."""
        self._run.times.check((time,))
        before = None if self.is_closed else self.time
        self._handle.advance_to(time)
        for output in self._outputs:
            output.changes.clear()
        if time != before:
            self._run.order_all(AdvanceInput(self.name, (time,)))

    def close(self) -> None:
        """Promise that nothing will be sent any more."""
        if not self._handle.is_closed:
            self._handle.close()
            self._run.order_all(CloseInput(self.name))
