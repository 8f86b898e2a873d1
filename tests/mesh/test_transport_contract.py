"""What every Transport promises, tried on each implementation: queues in this process, unix sockets, tcp.

Families, and what only each can find:
- *order*: messages of a pair come in the order in which they were sent, each exactly once, also when rows and
  progress alternate and when everybody speaks to everybody at once;
- *size*: nothing is too small or too big to arrive: no rows, one row many times, 64 MiB at once;
- *rows*: batches of every Arrow type come back equal, whole, sliced and with nulls;
- *manners*: sending does not wait for the receiver, receiving does not wait for the sender.

An implementation joins by adding one line to ``NETWORKS``: a context manager that gives the transports of n
workers, already connected. Whatever needs time to arrive may have a ``wait(timeout_seconds)``.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pointstamp.driver.local_run import LocalTransport
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import MessageCodec
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.ports import Location
from pointstamp.worker.protocols import DataMessage, Message, Transport

SECONDS_MAX = 120.0
LONGS = pa.schema([("key", pa.int64())])
AT = Location(0)

Schemas = dict[Location, pa.Schema]
Network = Callable[[int, Schemas, Path], AbstractContextManager[Sequence[Transport]]]


@contextmanager
def local(workers: int, schemas: Schemas, folder: Path) -> Iterator[Sequence[Transport]]:
    inboxes: list[deque[Message]] = [deque() for _ in range(workers)]
    yield [LocalTransport(WorkerIndex(number), inboxes) for number in range(workers)]


def zmq_network(transport: str, *, encrypted: bool) -> Network:
    @contextmanager
    def network(workers: int, schemas: Schemas, folder: Path) -> Iterator[Sequence[Transport]]:
        listen = f"ipc://{folder}/{{}}" if transport == "ipc" else "tcp://127.0.0.1:0"
        meshes = [
            Mesh(number, workers, listen=listen.format(number), encrypted=encrypted)
            for number in range(workers)
        ]
        try:
            for mesh in meshes:
                mesh.connect([each.address for each in meshes])
            deadline = monotonic() + SECONDS_MAX
            while sum(mesh.greet() for mesh in meshes) < workers:
                assert monotonic() < deadline
            yield [ZmqTransport(mesh, MessageCodec(schemas)) for mesh in meshes]
        finally:
            for mesh in meshes:
                mesh.close(linger_ms=0)

    return network


NETWORKS: dict[str, Network] = {
    "local": local,
    "ipc": zmq_network("ipc", encrypted=False),
    "tcp": zmq_network("tcp", encrypted=False),
    "tcp with keys": zmq_network("tcp", encrypted=True),
}


@pytest.fixture(params=NETWORKS, name="network")
def _network(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    chosen = NETWORKS[request.param]
    return lambda workers, schemas=None: chosen(workers, schemas or {AT: LONGS}, tmp_path)


def rows(sender: int, number: int, count: int = 1) -> DataMessage:
    batch = pa.record_batch([pa.array(range(count), pa.int64())], schema=LONGS)
    return DataMessage(WorkerIndex(sender), AT, (number,), batch)


def progress(sender: int, number: int) -> ProgressBatch:
    changes = (Change(AT, (number, 0), -1), Change(Location(3), (number, 2), 2))
    return ProgressBatch(WorkerIndex(sender), number, changes)


def gather(transport: Transport, count: int) -> list[Message]:
    """So many messages; an error where they do not come."""
    deadline = monotonic() + SECONDS_MAX
    found: list[Message] = list(transport.receive())
    while len(found) < count:
        assert monotonic() < deadline, f"{len(found)} of {count} messages came"
        getattr(transport, "wait", lambda _: None)(0.1)
        found.extend(transport.receive())
    return found


# Order.


def test_messages_of_a_pair_arrive_in_order_each_exactly_once(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        sent = [rows(0, number) for number in range(2_000)]
        for message in sent:
            first.send(WorkerIndex(1), message)
        assert gather(second, len(sent)) == sent
        assert second.receive() in ((), [])


def test_rows_and_progress_keep_their_order_among_each_other(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        sent = [make(0, number) for number in range(500) for make in (rows, progress)]
        for message in sent:
            first.send(WorkerIndex(1), message)
        assert gather(second, len(sent)) == sent


def test_everybody_can_speak_to_everybody_at_once(network: Callable[..., Any]) -> None:
    with network(4) as transports:
        for number in range(100):
            for sender, transport in enumerate(transports):
                for peer in range(4):
                    if peer != sender:
                        transport.send(WorkerIndex(peer), progress(sender, number))
        for receiver, transport in enumerate(transports):
            found = gather(transport, 300)
            for sender in {0, 1, 2, 3} - {receiver}:
                assert [each for each in found if each.sender == sender] == [
                    progress(sender, number) for number in range(100)
                ]


def test_what_arrives_can_be_sent_on_and_comes_back_the_same(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        message = rows(0, 7, count=10)
        for _ in range(20):
            first.send(WorkerIndex(1), message)
            (there,) = gather(second, 1)
            assert isinstance(there, DataMessage)
            second.send(WorkerIndex(0), DataMessage(WorkerIndex(1), AT, there.time, there.batch))
            (back,) = gather(first, 1)
            assert back == DataMessage(WorkerIndex(1), AT, message.time, message.batch)


# Size.


def test_a_batch_without_rows_and_progress_without_changes_arrive(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        sent = [rows(0, 1, count=0), ProgressBatch(WorkerIndex(0), 0, ())]
        for message in sent:
            first.send(WorkerIndex(1), message)
        assert gather(second, 2) == sent


def test_64_mebibytes_arrive_whole_between_small_messages(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        values = np.arange(8 * 1024 * 1024)
        large = pa.record_batch([pa.array(values)], schema=LONGS)
        assert large.nbytes == 64 * 1024 * 1024
        sent = [progress(0, 0), DataMessage(WorkerIndex(0), AT, (1,), large), rows(0, 2)]
        for message in sent:
            first.send(WorkerIndex(1), message)
        before, arrived, after = gather(second, 3)
        assert (before, after) == (sent[0], sent[2])
        assert isinstance(arrived, DataMessage)
        assert arrived.batch.equals(large)


# Rows.


def every_type() -> dict[str, pa.Array]:
    """One array of four values, one of them null where that can be, for each type that Arrow has."""
    plain = {
        str(kind): pa.array([1, None, 3, 0], kind)
        for kind in (
            *(
                pa.int8(),
                pa.int16(),
                pa.int32(),
                pa.int64(),
                pa.uint8(),
                pa.uint16(),
                pa.uint32(),
                pa.uint64(),
            ),
            *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.time32("ms"), pa.time64("ns")),
            *(pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin"), pa.duration("s")),
        )
    }
    texts = {
        str(kind): pa.array(["", None, "äöü", "x" * 100], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view())
    }
    dictionary = pa.array(["a", None, "b", "a"]).dictionary_encode()
    nested = {
        "date64": pa.array([86_400_000, None, 0, 86_400_000], pa.date64()),
        "fixed binary": pa.array([b"abc", None, b"def", b"\0\0\0"], pa.binary(3)),
        "interval": pa.array([(1, 2, 3), None, (0, 0, 0), (4, 5, 6)], pa.month_day_nano_interval()),
        "bool": pa.array([True, None, False, True]),
        "null": pa.nulls(4),
        "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal(0)], pa.decimal128(38, 2)),
        "decimal256": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal(0)], pa.decimal256(60, 2)),
        "list": pa.array([[1, 2], None, [], [None]], pa.list_(pa.int64())),
        "large list": pa.array([[1, 2], None, [], [None]], pa.large_list(pa.int64())),
        "fixed list": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int64(), 2)),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2, "b": None}]),
        "map": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64())),
        "dictionary": dictionary,
        "list of dictionary": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), dictionary),
        "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array([7, None])),
        "union": pa.UnionArray.from_sparse(
            pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", None])]
        ),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16, b"2" * 16], pa.binary(16))
        ),
    }
    return {**plain, **texts, **nested}


@pytest.mark.parametrize("kind", every_type())
def test_batches_of_every_arrow_type_come_back_equal_whole_and_sliced(
    network: Callable[..., Any], kind: str
) -> None:
    array = every_type()[kind]
    schema = pa.schema([pa.field("value", array.type)])
    batch = pa.record_batch([array], schema=schema)
    with network(2, {AT: schema}) as (first, second):
        parts = [batch, batch.slice(1, 2), batch.slice(3), batch.slice(0, 0)]
        for part in parts:
            first.send(WorkerIndex(1), DataMessage(WorkerIndex(0), AT, (0,), part))
        for part, arrived in zip(parts, gather(second, len(parts)), strict=True):
            assert isinstance(arrived, DataMessage)
            assert arrived.batch.schema.equals(schema)
            assert arrived.batch.equals(part), (arrived.batch.to_pydict(), part.to_pydict())


def test_what_was_received_stays_valid_while_more_is_received(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        kept = []
        for number in range(50):
            first.send(WorkerIndex(1), rows(0, number, count=3_000))
            kept.extend(gather(second, 1))
        assert kept == [rows(0, number, count=3_000) for number in range(50)]


# Manners.


def test_sending_does_not_wait_for_a_receiver_that_never_looks(network: Callable[..., Any]) -> None:
    with network(2) as (first, second):
        for number in range(5_000):
            first.send(WorkerIndex(1), rows(0, number))
        assert len(gather(second, 5_000)) == 5_000


def test_receiving_returns_at_once_where_nothing_has_come(network: Callable[..., Any]) -> None:
    with network(3) as transports:
        for transport in transports:
            assert list(transport.receive()) == []


def test_who_has_just_looked_sees_news_when_it_has_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pointstamp.mesh.transport.LOOK_SECONDS", SECONDS_MAX)
    with NETWORKS["ipc"](2, {AT: LONGS}, tmp_path) as (first, second):
        assert isinstance(second, ZmqTransport)
        assert list(second.receive()) == []
        first.send(WorkerIndex(1), rows(0, 1))
        assert list(second.receive()) == []
        assert second.wait(SECONDS_MAX)
        assert list(second.receive()) == [rows(0, 1)]
