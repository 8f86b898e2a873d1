"""Declarations of saved attributes, for an operator's ``state``.

    class Sessions:
        outputs = "user string, clicks long"
        state = {"open": saved.mapping("string", list[int]), "seen": saved.values(int)}

Each way turns the value of the attribute into one Arrow table and back. A value that could not be given back
exactly is refused when the state is first saved, and not when it is needed. A ``mapping`` and an ``arrow``
table with keys can be shared out among another number of workers; the others belong to the worker that saved
them.

All of it is saved complete each time. An operator with much state, of which little changes, has ``save`` and
``restore`` of its own (``pointstamp.state.pieces.Stateful``); ``owners`` says there which of the rows that
were restored are whose.
"""

import builtins
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from pointstamp.arrow.schema import as_schema
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.state.exact_encoding import PLAIN, encodable, from_extension, is_exact
from pointstamp.state.pieces import Piece
from pointstamp.state.pieces import owners as owners

_VALUE: Final = pa.schema([("value", pa.large_binary())])
_ENCODER: Final = msgspec.msgpack.Encoder()
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)


@runtime_checkable
class Saving(Protocol):
    """One way to save an attribute."""

    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401 - whatever the attribute holds
        """The value as a table; FlowError names ``who`` where it cannot be saved this way."""
        ...

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401 - as above
        """The value again, where a new operator has ``fresh`` in its place."""
        ...


def arrow(*, keys: Sequence[str] = ()) -> Saving:
    """A pyarrow Table or RecordBatch; with keys, each row belongs to the worker that owns its key.

    It comes back as a RecordBatch if the attribute of a new operator is one, and otherwise as a Table.
    """
    return _Arrow(tuple(keys) or None)


def values(type: Any = Any) -> Saving:  # noqa: A002, ANN401 - a type as msgspec takes it
    """Numbers, text, lists, dictionaries, dataclasses and what else msgspec can write, of the given type.

    Without a type it is what rows hold, as ``batch.to_pylist()`` gives them: None, bool, int, float, str,
    bytes, times, dates, durations, decimals, and lists, tuples and dictionaries of these.
    """
    return _Encoded(ObjectCodec(type))


def bytes() -> Saving:  # noqa: A001 - the word for it
    """Bytes that the operator makes and understands itself."""
    return _Bytes()


def pickled() -> Saving:
    """Any Python object, by pickle: only where nothing else will do.

    Unpickling can run any code, so every process that can write to the checkpoint can run code in the
    workers; and what was pickled is readable only as long as its classes keep their names and attributes.
    """
    return _Pickled()


def mapping(key: str | pa.DataType, value: Any = Any) -> Saving:  # noqa: ANN401 - a type as msgspec takes it
    """A dict whose keys are those of the exchange before the operator, which may hold one key column.

    ``key`` is the type of that column, as in a schema ("long", "string") or Arrow's. Each entry belongs to
    the worker to which the exchange brings its key. Values are saved as with ``values(value)``: without a
    type they may be complete rows.
    """
    kind = as_schema(f"key {key}").field(0).type if isinstance(key, str) else key
    return _Mapping(kind, ObjectCodec(value))


class ObjectCodec:
    """Python objects of one type as bytes of MessagePack, so that they come back as they were."""

    def __init__(self, kind: Any = Any) -> None:  # noqa: ANN401 - a type as msgspec takes it
        self.kind = kind
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind, ext_hook=from_extension)

    def __deepcopy__(self, memo: object) -> "ObjectCodec":
        """It never changes, and msgspec's decoders cannot be copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """By its type, for the same reason."""
        return ObjectCodec, (self.kind,)

    def encoded(self, who: str, value: Any) -> builtins.bytes:  # noqa: ANN401 - of that type
        """The bytes; FlowError where they would not give the value back."""
        why = "it would come back as something else"
        is_equal = False  # as the declared type has it, though perhaps in another zone
        try:
            data = _ENCODER.encode(value)
            if self.kind is Any:
                if _is_plain(value):
                    return data
            else:
                # To read it once is the only way to know that the declared type is the true one.
                back = self._decoder.decode(data)
                if is_exact(value, back):
                    return data
                is_equal = type(value) is type(back) and bool(value == back)
        except _UNWRITABLE as error:
            why = str(error)
        try:
            # As rows have it, where the declared type says nothing of what is inside.
            exact = _ENCODER.encode(encodable(value))
            if is_exact(value, self._decoder.decode(exact)):
                return exact
        except _UNWRITABLE as error:
            why = str(error) if self.kind is Any else why
        if is_equal:
            return data
        raise FlowError(_refusal(who, self.kind, value, why))

    def decoded(self, who: str, data: builtins.bytes) -> Any:  # noqa: ANN401 - of that type
        """The value; RecoveryError where it is not of the type any more."""
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise RecoveryError(
                f"{who} was not saved as {_named(self.kind)}: {error}. Declare the type that it was saved "
                "with, or start without the snapshot."
            ) from error


@dataclass(frozen=True, slots=True)
class _Arrow:
    keys: tuple[str, ...] | None

    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401
        if isinstance(value, pa.RecordBatch):
            value = pa.Table.from_batches([value])
        _check_type(who, value, pa.Table, "saved.arrow()", "a pyarrow Table or RecordBatch")
        for key in self.keys or ():
            if key not in value.column_names:
                raise FlowError(
                    f"{who} is saved with saved.arrow(keys={self.keys}), but its columns "
                    f"{value.column_names} do not include '{key}'. Name key columns that the table has."
                )
        return Piece(value, self.keys)

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401
        if not isinstance(fresh, pa.RecordBatch):
            return table
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=table.schema)


@dataclass(frozen=True, slots=True)
class _Encoded:
    codec: ObjectCodec

    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401
        return _one_value(self.codec.encoded(who, value))

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401
        return self.codec.decoded(who, _value_of(who, table))


@dataclass(frozen=True, slots=True)
class _Bytes:
    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401
        _check_type(who, value, builtins.bytes, "saved.bytes()", "bytes")
        return _one_value(value)

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401
        return _value_of(who, table)


@dataclass(frozen=True, slots=True)
class _Pickled:
    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401
        try:
            return _one_value(pickle.dumps(value))
        except Exception as error:  # whatever the object raises
            raise FlowError(
                f"{who} is saved with saved.pickled(), but its {type(value).__name__} cannot be pickled: "
                f"{error}. Move the parts that cannot be pickled out of it."
            ) from error

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401
        return pickle.loads(_value_of(who, table))  # noqa: S301 - asked for by name


@dataclass(frozen=True, slots=True)
class _Mapping:
    kind: pa.DataType
    codec: ObjectCodec

    def to_piece(self, who: str, value: Any) -> Piece:  # noqa: ANN401
        _check_type(who, value, dict, "saved.mapping()", "a dict")
        given = list(value)
        try:
            keys = pa.array(given, self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._key_error(who, str(error)) from error
        back = keys.to_pylist()
        if changed := [(one, other) for one, other in zip(given, back, strict=True) if not _same(one, other)]:
            raise self._key_error(who, f"{changed[0][0]!r} would be restored as {changed[0][1]!r}")
        data = [self.codec.encoded(f"{who} at key {one!r}", each) for one, each in value.items()]
        table = pa.table({"key": keys, "value": pa.array(data, pa.large_binary())})
        return Piece(table, ("key",), ("key",))

    def from_table(self, who: str, table: pa.Table, fresh: Any) -> Any:  # noqa: ANN401
        decode: Callable[[builtins.bytes], Any] = lambda data: self.codec.decoded(who, data)  # noqa: E731
        keys, data = (table.column(name).to_pylist() for name in ("key", "value"))
        return dict(zip(keys, map(decode, data), strict=True))

    def _key_error(self, who: str, why: str) -> FlowError:
        return FlowError(
            f"{who} is saved with saved.mapping() by keys of type {self.kind}, but has others: {why}. "
            "Declare the type of the column that is the key of the exchange before the operator."
        )


def _one_value(data: builtins.bytes) -> Piece:
    return Piece(pa.table([pa.array([data], pa.large_binary())], schema=_VALUE), None)


def _value_of(who: str, table: pa.Table) -> builtins.bytes:
    if table.schema.names != _VALUE.names or table.num_rows != 1:
        raise RecoveryError(
            f"{who} needs one saved value, got {table.num_rows} rows of {table.schema.names}. Declare it "
            "as it was saved, or start without the snapshot."
        )
    data: builtins.bytes = table.column(0)[0].as_py()
    return data


def _check_type(who: str, value: Any, wanted: type, how: str, words: str) -> None:  # noqa: ANN401
    if not isinstance(value, wanted):
        raise FlowError(
            f"{who} is saved with {how}, which needs {words}, got {type(value).__name__}. Set such a "
            "value in __init__, or declare another way to save it."
        )


def _refusal(who: str, kind: Any, value: Any, why: str) -> str:  # noqa: ANN401
    declared = "without a type" if kind is Any else f"as {_named(kind)}"
    return (
        f"{who} is saved {declared}, but holds a {type(value).__name__} that cannot be saved so: {why}. "
        "Declare its type, as msgspec knows it, or keep it in values such as rows hold."
    )


def _named(kind: Any) -> str:  # noqa: ANN401
    return str(getattr(kind, "__name__", kind)) if not getattr(kind, "__args__", ()) else str(kind)


def _is_plain(value: Any) -> bool:  # noqa: ANN401
    """Whether a value reads back without a type as what it is: exactly these types, all the way down."""
    kind = type(value)
    if kind is list:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return kind in PLAIN


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401
    return type(one) is type(other) and bool(one == other or (one != one and other != other))
