"""The wire format of messages: an envelope, a header, and Arrow bodies without schema.

The first frame of every message begins with an envelope of 24 bytes: who sent it, in which generation of the
run, its number among all that this sender has sent to this receiver the same way, and how many went the other
way before it (``pointstamp.mesh.message_io``). The header follows in the same frame, as msgpack; it is the
same for every receiver, so a batch of progress is encoded once for all. A batch of rows is a second frame, in
Arrow's IPC format. Its schema does not travel: both ends know it from the plan, by the location that the
batch is sent to.

Invariant: what is decoded equals what was encoded, times included, or an error is raised. Nothing is ever
unpickled. Times of epochs are tuples of integers; a flow's own root times may be of any plain kind that has
one form on the wire (integers, strings, bytes, floats, booleans, None, and tuples of these), and others are
refused where they are sent. That is also why every array on the wire comes back as a tuple: times are
hashable, so they hold no lists.

The shape of a body is checked and its values are not read: bytes damaged on the way do not get past tcp and
CURVE, and unauthorized connections are rejected.

Which bytes go where, and whether a peer still lives, is the business of ``pointstamp.mesh.mesh``.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.domain import EPOCHS, Epochs, Time, TimeOrder
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, Target
from pointstamp.worker.protocols import DataMessage, Message

Body: TypeAlias = Any
"""Anything with the buffer protocol: ``pa.Buffer`` on the way out, bytes or a memoryview on the way in."""


class MessageKind:
    """Kinds of messages as plain integers, which are much faster than an enumeration."""

    HELLO: Final = 1
    GOODBYE: Final = 2
    PROGRESS: Final = 3
    DATA: Final = 4
    CONTROL: Final = 5


class Envelope(NamedTuple):
    """The envelope: sender, generation, number, and messages of the other transport before it."""

    kind: int
    sender: int
    generation: int
    sequence: int
    after: int = 0


# The first byte tells the format and its version; a stranger's message will not begin with it.
_MAGIC: Final = 0xB2
_ENVELOPE: Final = struct.Struct("<BBHIQQ")
ENVELOPE_BYTES: Final = _ENVELOPE.size
_KINDS: Final = range(MessageKind.HELLO, MessageKind.CONTROL + 1)


def seal(kind: int, sender: int, generation: int, sequence: int, after: int = 0) -> bytes:
    """The envelope as bytes."""
    return _ENVELOPE.pack(_MAGIC, kind, sender, generation, sequence, after)


def unseal(frame: bytes | memoryview) -> Envelope:
    """The envelope at the beginning of a frame; TransportError where there is none."""
    if len(frame) >= ENVELOPE_BYTES:
        magic, kind, sender, generation, sequence, after = _ENVELOPE.unpack_from(frame)
        if magic == _MAGIC and kind in _KINDS:
            return Envelope(kind, sender, generation, sequence, after)
    raise TransportError(
        "received a message that no worker of this version can have sent: it begins "
        f"{bytes(frame[:ENVELOPE_BYTES])!r}. Look for another program at this address, and for workers "
        "with another version of pointstamp."
    )


class TimeFormat:
    """Encodes the times of a flow as plain values, exactly."""

    def __init__(self, root: TimeOrder[Any] = EPOCHS) -> None:
        self.is_epochs = isinstance(root, Epochs)

    def check(self, time: Time) -> Time:
        """The time itself, where it can travel; FlowError otherwise."""
        for coordinate in time:
            self._check_plain(coordinate, time)
        return time

    def restore(self, decoded: object) -> Time:
        """A time from what was decoded without a type: arrays are tuples again; ValueError for no time."""
        if not isinstance(decoded, list | tuple) or not decoded:
            raise ValueError(f"expected a time, got {decoded!r}")
        if self.is_epochs and any(type(coordinate) is not int for coordinate in decoded):
            raise ValueError(f"expected a time of integers, got {decoded!r}")
        return tuple(_as_tuples(coordinate) for coordinate in decoded)

    def _check_plain(self, value: object, time: Time) -> None:
        kind = type(value)
        if kind is int:
            if -(2**63) <= value < 2**64:  # type: ignore[operator]
                return
        elif not self.is_epochs:
            if kind in _PLAIN:
                return
            if kind is tuple:
                for each in value:  # type: ignore[attr-defined]
                    self._check_plain(each, time)
                return
        allowed = (
            "integers"
            if self.is_epochs
            else "integers of 64 bits, strings, bytes, floats, booleans, None, and tuples of these"
        )
        raise FlowError(
            f"the time {time} holds {value!r} of type {kind.__name__}, which does not survive the trip "
            f"between processes; times must consist of {allowed}. Use these for root times."
        )


_PLAIN: Final = frozenset({str, bytes, float, bool, type(None)})


def _as_tuples(value: Any) -> Any:  # noqa: ANN401 - any plain value
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


class _EpochChange(Change):
    """A change whose time is made of integers, so that decoding checks it."""

    __slots__ = ()
    __annotations__ = {"location": Annotated[int, msgspec.Meta(ge=0)], "time": tuple[int, ...], "diff": int}


class BatchFormat:
    """Encodes batches of one schema in Arrow IPC format without the schema.

    Columns with a dictionary need their dictionary, which a batch alone does not carry: schemas that have
    one travel as a whole IPC stream.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._has_dictionary = any(_has_dictionary(field.type) for field in schema)

    def encode(self, batch: pa.RecordBatch) -> pa.Buffer:
        """The batch as one buffer."""
        if not batch.schema.equals(self.schema):
            raise SchemaError(
                f"a batch must have the declared schema {self.schema.to_string()!r}, got "
                f"{batch.schema.to_string()!r}. Send what the operator declares."
            )
        if not self._has_dictionary:
            return batch.serialize()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    def decode(self, body: Body) -> pa.RecordBatch:
        """The batch in a buffer, which it keeps and does not copy; an error of Arrow's for anything else."""
        buffer = pa.py_buffer(body)
        if buffer.address % 8:
            # Small messages arrive at any address, and Arrow's kernels expect their values aligned.
            buffer = pa.py_buffer(buffer.to_pybytes())
        if not self._has_dictionary:
            batch = pa.ipc.read_record_batch(buffer, self.schema)
        else:
            with pa.ipc.open_stream(buffer) as reader:
                if not reader.schema.equals(self.schema):
                    raise ValueError(
                        f"expected {self.schema.to_string()!r}, got {reader.schema.to_string()!r}"
                    )
                batch = reader.read_next_batch()
        batch.validate()
        return batch


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


_Unpack: TypeAlias = Callable[[Body], Any]


class MessageCodec:
    """Turns the messages of one flow into frames and back; used by one worker."""

    def __init__(self, schemas: Mapping[Location, pa.Schema], root: TimeOrder[Any] = EPOCHS) -> None:
        self.times = TimeFormat(root)
        self._formats = {location: BatchFormat(schema) for location, schema in schemas.items()}
        self._pack: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
        change: Any = _EpochChange if self.times.is_epochs else Change
        time: Any = tuple[int, ...] if self.times.is_epochs else tuple[Any, ...]
        self._unpack_progress: _Unpack = msgspec.msgpack.Decoder(tuple[int, tuple[change, ...]]).decode
        self._unpack_data: _Unpack = msgspec.msgpack.Decoder(tuple[int, time]).decode
        self._last: tuple[ProgressBatch | None, bytes] = (None, b"")

    @classmethod
    def of(cls, plan: Plan, graph: OperatorGraph) -> "MessageCodec":
        """The codec of a plan: each input's batches have the schema of the output that it reads."""
        return cls(schemas_by_location(plan, graph), plan.root)

    def encode(self, message: Message) -> tuple[int, bytes, Sequence[Body]]:
        """A message as its kind, its header, and the frames that follow."""
        if isinstance(message, ProgressBatch):
            if self._last[0] is not message:
                self._last = message, self._encode_progress(message)
            return MessageKind.PROGRESS, self._last[1], ()
        if not self.times.is_epochs:
            self.times.check(message.time)
        header = self._pack((message.location, message.time))
        return MessageKind.DATA, header, (self._formats[message.location].encode(message.batch),)

    def decode(self, sender: WorkerIndex, kind: int, header: Body, bodies: Sequence[Body]) -> Message:
        """The message; TransportError, which names the sender, for what cannot be one."""
        try:
            if kind == MessageKind.PROGRESS and not bodies:
                return self._decode_progress(sender, header)
            if kind == MessageKind.DATA and len(bodies) == 1:
                location, time = self._unpack_data(header)
                if not self.times.is_epochs:
                    time = self.times.restore(time)
                batch = self._formats[location].decode(bodies[0])
                return DataMessage(sender, Location(location), time, batch)
        except (msgspec.MsgspecError, pa.ArrowException, OSError, ValueError, KeyError, EOFError) as error:
            raise unreadable(f"worker {sender}", f"{type(error).__name__}: {error}") from error
        raise unreadable(f"worker {sender}", f"kind {kind} with {len(bodies)} bodies")

    def _encode_progress(self, batch: ProgressBatch) -> bytes:
        if not self.times.is_epochs:
            for change in batch.changes:
                self.times.check(change.time)
        try:
            return self._pack((batch.sequence, batch.changes))
        except (TypeError, OverflowError) as error:
            for change in batch.changes:
                self.times.check(change.time)
            raise FlowError(f"progress cannot be sent between processes: {error}") from error

    def _decode_progress(self, sender: WorkerIndex, header: Body) -> ProgressBatch:
        sequence, changes = self._unpack_progress(header)
        if not self.times.is_epochs:
            restore = self.times.restore
            changes = tuple(Change(location, restore(time), diff) for location, time, diff in changes)
        return ProgressBatch(sender, sequence, changes)


def unreadable(sender: str, what: str) -> TransportError:
    """The error for a message that its receiver cannot read."""
    return TransportError(
        f"{sender} sent a message that cannot be read ({what}). All workers must run the same flow with the "
        "same version of pointstamp."
    )


def schemas_by_location(plan: Plan, graph: OperatorGraph) -> dict[Location, pa.Schema]:
    """The schema of the batches that arrive at each input of the plan; inside of a chain none do."""
    inner = plan.chains().inner
    return {
        graph.location(Target(node.index, number)): plan.nodes[port.source.operator]
        .outputs[port.source.port]
        .schema
        for node in plan.nodes
        for number, port in enumerate(node.inputs)
        if port.source is not None and Target(node.index, number) not in inner
    }
