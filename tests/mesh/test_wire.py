"""Messages as bytes: what is decoded equals what was encoded, or an error says who sent what.

Families, and what only each can find:
- *round trips* (hypothesis): times of every shape and progress of every size come back equal and of the same
  types, so that they compare, hash and sort as before;
- *refusals*: a time that would come back as something else is refused where it is sent;
- *garbage* (hypothesis): bytes that are no message raise TransportError that names the sender, whatever they
  are, and never crash the process.
"""

from dataclasses import dataclass
from signal import SIGTERM

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import FlowError, SchemaError, TransportError
from pointstamp.mesh.wire import ENVELOPE_BYTES, Envelope, MessageCodec, MessageKind, seal, unseal
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location
from pointstamp.worker.protocols import DataMessage, Message

LONGS = pa.schema([("key", pa.int64())])
AT = Location(4)
SENDER = WorkerIndex(3)


@dataclass(frozen=True)
class Alphabet:
    """Root times of a user's own, of which only the values matter here."""

    def less_equal(self, a: object, b: object, /) -> bool:
        return bool(a == b)

    def sort_key(self, element: object, /) -> str:
        return repr(element)

    def minimum(self) -> str:
        return ""


EPOCH_CODEC = MessageCodec({AT: LONGS})
OWN_CODEC = MessageCodec({AT: LONGS}, Alphabet())

epoch_times = st.lists(st.integers(0, 2**62), min_size=1, max_size=4).map(tuple)
plain = st.recursive(
    st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.binary()
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
own_times = st.tuples(plain, st.integers(0, 9))


def there_and_back(codec: MessageCodec, message: Message) -> Message:
    kind, header, bodies = codec.encode(message)
    return codec.decode(message.sender, kind, header, bodies)


def types_in(value: object) -> object:
    return [types_in(each) for each in value] if isinstance(value, tuple) else type(value)


def progress(*times: Time) -> ProgressBatch:
    return ProgressBatch(SENDER, 7, tuple(Change(Location(i), time, -i) for i, time in enumerate(times)))


def rows(time: Time) -> DataMessage:
    return DataMessage(SENDER, AT, time, pa.record_batch([pa.array([1, None, 3])], schema=LONGS))


def refusal(codec: MessageCodec, kind: int, header: bytes, bodies: list[bytes]) -> str | None:
    """Why these frames are no message; None where they are one, which must then be whole."""
    try:
        message = codec.decode(SENDER, kind, header, bodies)
    except TransportError as error:
        return str(error)
    if isinstance(message, DataMessage):
        assert message.batch.schema == LONGS
        message.batch.validate()
    return None


# Round trips.


@given(st.lists(epoch_times, max_size=5))
def test_progress_at_epochs_comes_back_equal(times: list[Time]) -> None:
    assert there_and_back(EPOCH_CODEC, progress(*times)) == progress(*times)


@given(st.lists(own_times, max_size=5))
def test_progress_at_times_of_ones_own_comes_back_equal_and_of_the_same_types(times: list[Time]) -> None:
    arrived = there_and_back(OWN_CODEC, progress(*times))
    assert arrived == progress(*times)
    assert isinstance(arrived, ProgressBatch)
    assert [types_in(change.time) for change in arrived.changes] == [types_in(time) for time in times]


@given(own_times)
def test_rows_at_times_of_ones_own_come_back_equal(time: Time) -> None:
    arrived = there_and_back(OWN_CODEC, rows(time))
    assert arrived == rows(time)
    assert types_in(arrived.time) == types_in(time)


def test_changes_come_back_as_changes() -> None:
    arrived = there_and_back(EPOCH_CODEC, progress((1, 2)))
    assert isinstance(arrived, ProgressBatch)
    (change,) = arrived.changes
    assert isinstance(change, Change)
    assert (change.location, change.time, change.diff) == (0, (1, 2), 0)


def test_a_batch_of_progress_is_encoded_once_for_all_receivers() -> None:
    batch = progress((1,), (2,))
    assert EPOCH_CODEC.encode(batch)[1] is EPOCH_CODEC.encode(batch)[1]


@given(
    st.integers(MessageKind.HELLO, MessageKind.CONTROL),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
def test_envelopes_come_back_equal(kind: int, sender: int, generation: int, sequence: int) -> None:
    frame = seal(kind, sender, generation, sequence) + b"header"
    assert unseal(frame) == Envelope(kind, sender, generation, sequence)
    assert frame[ENVELOPE_BYTES:] == b"header"


# Refusals.


@pytest.mark.parametrize(
    "root",
    [frozenset({1}), 2**64, pa.scalar(1), (1, [2]), SIGTERM],
    ids=lambda root: type(root).__name__,
)
def test_a_time_that_would_come_back_as_something_else_is_refused_by_name(root: object) -> None:
    for message in (progress((root, 0)), rows((root, 0))):
        with pytest.raises(FlowError, match="does not survive the trip between processes"):
            OWN_CODEC.encode(message)


def test_an_epoch_that_is_no_integer_is_refused_by_the_receiver_at_the_latest() -> None:
    with pytest.raises(TransportError, match=r"worker 3 .*Expected `int`, got `float`"):
        there_and_back(EPOCH_CODEC, progress((0.5,)))


def test_a_batch_of_another_schema_is_not_sent() -> None:
    wrong = pa.record_batch({"key": ["x"]})
    with pytest.raises(SchemaError, match=r"must have the declared schema 'key: int64', got 'key: string'"):
        EPOCH_CODEC.encode(DataMessage(SENDER, AT, (0,), wrong))


# Garbage.


@given(st.binary(max_size=40), st.sampled_from([EPOCH_CODEC, OWN_CODEC]), st.integers(1, MessageKind.CONTROL))
def test_a_header_of_any_bytes_is_an_error_or_a_message(noise: bytes, codec: MessageCodec, kind: int) -> None:
    refused = refusal(codec, kind, noise, [])
    assert refused is None or "worker 3" in refused


@given(st.binary(max_size=400))
def test_a_body_of_any_bytes_is_an_error_that_names_the_sender(noise: bytes) -> None:
    header = msgspec.msgpack.encode((AT, (0,)))
    with pytest.raises(TransportError, match="worker 3 sent a message that cannot be read"):
        EPOCH_CODEC.decode(SENDER, MessageKind.DATA, header, [noise])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_body_is_an_error_or_a_batch_of_the_schema(position: int, flip: int) -> None:
    kind, header, (body,) = EPOCH_CODEC.encode(rows((0,)))
    damaged = bytearray(body)
    damaged[position % len(damaged)] ^= flip
    refused = refusal(EPOCH_CODEC, kind, header, [bytes(damaged)])
    assert refused is None or "worker 3" in refused


@given(st.binary(max_size=40))
def test_a_frame_without_an_envelope_is_refused(noise: bytes) -> None:
    if noise[:1] == seal(MessageKind.DATA, 0, 0, 0)[:1]:
        return
    with pytest.raises(TransportError, match="no worker of this version can have sent"):
        unseal(noise)


@pytest.mark.parametrize(
    "changes", [[[-1, [0], 1]], [[0, ["x"], 1]], [[0, [0]]], [[0, [0], "1"]], "abc", [[0, 0, 1]]], ids=repr
)
def test_progress_of_the_wrong_shape_is_refused(changes: object) -> None:
    with pytest.raises(TransportError, match="worker 3"):
        EPOCH_CODEC.decode(SENDER, MessageKind.PROGRESS, msgspec.msgpack.encode((0, changes)), ())


def test_rows_for_a_place_that_the_plan_does_not_have_are_refused() -> None:
    with pytest.raises(TransportError, match="worker 3"):
        EPOCH_CODEC.decode(SENDER, MessageKind.DATA, msgspec.msgpack.encode((99, (0,))), [b""])
