"""One input of a flow in several processes: what it orders of whom, written down by a run that has none."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow.row_hashing import partition
from pointstamp.driver.messages import AdvanceInput, CloseInput, Order, SendRows
from pointstamp.driver.processes import SLICE_ROWS_MAX, SLICE_ROWS_MIN, ProcessInput
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind
from pointstamp.mesh.wire import BatchFormat, TimeFormat
from pointstamp.worker.routes import key_of, routes_of

WORKERS = 2


class WritesDown:
    """A run whose orders go nowhere."""

    def __init__(self) -> None:
        self.times = TimeFormat()
        self.orders: list[tuple[int | None, Order]] = []
        self.bodies: list[pa.Buffer] = []

    def order(self, worker: int, order: Order, bodies: Sequence[pa.Buffer] = ()) -> None:
        self.orders.append((worker, order))
        self.bodies.extend(bodies)

    def order_all(self, order: Order) -> None:
        self.orders.append((None, order))


def test_rows_go_in_slices_and_a_time_is_told_once() -> None:
    flow, run = ps.Dataflow("flow"), WritesDown()
    flow.output("out", flow.stream_input("rows", "x long"))
    handle = ProcessInput(run, flow.plan.named(NodeKind.INPUT)["rows"], flow.plan.graph(), WORKERS)
    handle.advance_to(0)
    handle.send(pa.table({"x": range(WORKERS * SLICE_ROWS_MIN)}))
    handle.advance_to(1)
    handle.advance_to(1)
    handle.send(pa.table({"x": [1]}))
    with pytest.raises(FlowError, match="to a greater or equal time"):
        handle.advance_to(0)
    handle.close()
    with pytest.raises(FlowError, match="after it was closed"):
        handle.advance_to(1)
    rows = SendRows("rows", late=False)
    told = AdvanceInput("rows", (1,))
    assert run.orders == [(0, rows), (1, rows), (None, told), (0, rows), (None, CloseInput("rows"))]


def test_few_rows_go_to_the_owners_of_their_keys_and_many_in_slices() -> None:
    flow, run = ps.Dataflow("flow"), WritesDown()
    flow.output("out", flow.stream_input("rows", "x long").count("x"))
    node, graph = flow.plan.named(NodeKind.INPUT)["rows"], flow.plan.graph()
    keys = key_of(routes_of(flow.plan, graph)[node.index, 0])
    assert keys == ("x",)
    handle = ProcessInput(run, node, graph, WORKERS, keys=keys)
    few = pa.record_batch({"x": range(20)})
    handle.send(few)
    expected = partition(few, keys, WORKERS)
    batches = BatchFormat(few.schema)
    assert [batches.decode(body) for body in run.bodies] == expected
    own = SendRows("rows", are_own=True)
    assert run.orders == [(0, own), (1, own)]
    run.orders.clear()
    handle.send(few.slice(0, 1))
    assert [worker for worker, _ in run.orders] == [0 if partition(few.slice(0, 1), keys, WORKERS)[0] else 1]
    run.bodies.clear()
    handle.send(pa.table({"x": range(WORKERS * SLICE_ROWS_MIN)}))
    assert [batches.decode(body).num_rows for body in run.bodies] == [SLICE_ROWS_MIN] * WORKERS


def test_a_large_batch_goes_in_slices_to_the_workers_in_turn() -> None:
    flow, run = ps.Dataflow("flow"), WritesDown()
    flow.output("out", flow.stream_input("rows", "x long"))
    handle = ProcessInput(run, flow.plan.named(NodeKind.INPUT)["rows"], flow.plan.graph(), WORKERS)
    handle.send(pa.table({"x": pa.nulls(4 * SLICE_ROWS_MAX + 1, pa.int64())}))
    rows = SendRows("rows", late=False)
    assert run.orders == [(0, rows), (1, rows), (0, rows), (1, rows), (0, rows)]
