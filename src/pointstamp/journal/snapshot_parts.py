"""Parts of a snapshot as bytes: the saved state of one worker.

A part holds the pieces of state of each operator as Arrow tables, and what it held, awaited and had sent
ahead. A snapshot is a chain: the parts of a complete one, then those of each later one with what changed
since. It is restored to any number of workers: rows go to the worker that owns their key, by the same hash or
function that exchanges them (``dealers``); state without keys belongs to the worker that saved it, and stays
with it.

A part is tied to its place twice: it is sealed with its query and its name, which says epoch, generation and
worker; and the commit that names it has its checksum. So no other part is taken for it, not even one of the
same name from a copy of the checkpoint with which another query continued.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from pointstamp.arrow.schema import fit
from pointstamp.errors import DamagedSnapshot, NotStored, RecoveryError, SchemaError, StorageError
from pointstamp.flow.plan import ExchangeBy, ExchangeByFunction, Pact, Plan
from pointstamp.journal.history import PartSaved
from pointstamp.state.pieces import Piece, merged, owned
from pointstamp.storage.port import Content, Storage, joined
from pointstamp.storage.sealed import checksum_of, sealed_parts, unseal
from pointstamp.worker.routes import routes_of, workers_by
from pointstamp.worker.snapshots import (
    Awaited,
    Held,
    InstanceSnapshot,
    Restored,
    RestoredInstance,
    SentAhead,
    WorkerSnapshot,
    place_of,
)

KIND = "snapshot part"
VERSION = 1
INLINE_BYTES_MAX = 4096
"""The parts of a commit are in the journal with it if they have together no more than about this."""
T = TypeVar("T")


class _SavedPiece(msgspec.Struct, array_like=True):
    keys: tuple[str, ...] | None
    identity: tuple[str, ...]
    is_whole: bool
    rows: bytes
    adds_up: bool = False


class _SavedAhead(msgspec.Struct, array_like=True):
    output: int
    target: str
    port: int
    time: tuple[int, ...]
    rows: bytes


class _SavedInstance(msgspec.Struct, array_like=True):
    pieces: dict[str, _SavedPiece]
    held: list[tuple[int, tuple[int, ...]]]
    awaited: list[tuple[int, tuple[int, ...]]]
    ahead: list[_SavedAhead]


class SavedPart(msgspec.Struct, array_like=True):
    """The saved state of one of ``workers`` workers after an epoch."""

    epoch: int
    worker: int
    workers: int
    is_whole: bool
    instances: dict[str, _SavedInstance]


def encode_part(
    snapshot: WorkerSnapshot, worker: int, workers: int, name: str, query: str
) -> tuple[PartSaved, Content]:
    """A worker's snapshot as sealed bytes, for a name in the checkpoint of a query."""
    bodies = Bodies()
    saved = SavedPart(
        snapshot.epoch,
        worker,
        workers,
        snapshot.is_whole,
        {place: _saved(each, bodies) for place, each in snapshot.instances.items()},
    )
    return _sealed(bodies.put_into(msgspec.msgpack.encode(saved)), name, query)


def stored_part(part: PartSaved, content: Content, storage: Storage, inline_bytes_max: int) -> PartSaved:
    """A part that is durable, or that holds itself if it has no more bytes than this."""
    if part.size_bytes <= inline_bytes_max:
        return msgspec.structs.replace(part, content=joined(content))
    storage.create(part.name, content)
    return part


def read_part(part: PartSaved, storage: Storage) -> bytes:
    """The sealed bytes of a part: its own, or those in storage; NotStored where there are none."""
    return part.content or storage.read(part.name)


def decode_part(content: bytes, part: PartSaved, query: str) -> SavedPart:
    """A part as it was saved; StorageError where it is not complete, or not the one that was committed."""
    try:
        return msgspec.msgpack.decode(_unsealed(content, part, query), type=SavedPart)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"'{part.name}' is intact, but cannot be read as a part of a snapshot: {error}."
        ) from error


def whole_part(part: PartSaved, storage: Storage, query: str) -> SavedPart:
    """A part as it was saved; DamagedSnapshot where it is not there, not complete, or another one.

    A storage that does not answer says nothing about the part: its error is another one.
    """
    try:
        content = read_part(part, storage)
    except NotStored as error:
        raise DamagedSnapshot(str(error)) from error
    try:
        return decode_part(content, part, query)
    except StorageError as error:
        raise DamagedSnapshot(str(error)) from error


def moved_part(
    content: bytes, part: PartSaved, query: str, name: str, new_query: str
) -> tuple[PartSaved, Content]:
    """A part of one query as it is stored under a name in the checkpoint of another."""
    return _sealed(_unsealed(content, part, query), name, new_query)


def _sealed(content: Content, name: str, query: str) -> tuple[PartSaved, Content]:
    sealed = sealed_parts(content, KIND, name, owner=query, version=VERSION)
    return PartSaved(name, sum(map(len, sealed)), checksum_of(sealed)), sealed


def _unsealed(content: bytes, part: PartSaved, query: str) -> bytes:
    inside = unseal(content, KIND, part.name, owner=query, version=VERSION)
    if checksum_of(content) != part.crc32:
        raise StorageError(
            f"'{part.name}' is intact, but is not the part that was committed: its checksum is "
            f"{checksum_of(content):08x}, and that of the committed part is {part.crc32:08x}. It comes "
            "from a copy of the checkpoint that another query has resumed."
        )
    return inside


# The owners of saved rows downstream of an exchange by a function.
#
# Behind an exchange by columns a row of saved state belongs to the worker of the hash of its keys. Behind an
# exchange by a function it belongs to the worker of its shard, which can be computed again only from what the
# function is given. So rows can be dealt out to another number of workers if the function is given named
# columns and the rows are kept by these columns; in every other case the owner is not known, and the change
# is refused.


@dataclass(frozen=True, slots=True)
class Dealer:
    """Deals out the rows that one operator keeps; ``pacts`` are those by which rows come to it."""

    pacts: tuple[ExchangeBy | ExchangeByFunction, ...]

    def owned(self, table: pa.Table, keys: Sequence[str], worker: int, workers: int, who: str) -> pa.Table:
        """The rows that belong to a worker; RecoveryError, beginning with ``who``, if that is not known."""
        if not table.num_rows:
            return table
        pact = self._pact(keys, workers, who)
        assert pact.columns is not None
        named = table.select(list(keys)).rename_columns(pact.columns.names).combine_chunks()
        try:
            batches = [fit(batch, pact.columns, "the saved keys") for batch in named.to_batches()]
        except SchemaError as error:
            raise RecoveryError(
                f"{who} has keys whose types differ from those of the exchange {pact} upstream: {error} "
                "Declare the types of those columns, or start with as many workers as before."
            ) from error
        owners = [workers_by(pact, batch, workers, f"exchange {pact}") for batch in batches]
        return table.filter(pa.array(np.concatenate(owners) == worker))

    def _pact(self, keys: Sequence[str], workers: int, who: str) -> ExchangeByFunction:
        """The function that says which worker owns a row, if there is one and it looks at the keys."""
        first = self.pacts[0]
        saved = f"{who} was saved by a number of workers other than {workers}"
        if not isinstance(first, ExchangeByFunction) or not self._agree():
            said = " and ".join(dict.fromkeys(map(str, self.pacts)))
            raise RecoveryError(
                f"{saved}, and rows reach it {said}: it is ambiguous by which of these its rows are "
                "partitioned. Start with as many workers as before, or exchange all inputs by one "
                "function of named columns."
            )
        if first.columns is None:
            named = ", ".join(map(repr, keys))
            raise RecoveryError(
                f"{saved} downstream of an exchange {first}, and its keys alone do not determine the "
                "worker that owns them. Start with as many workers as before, or name the columns that "
                f"the function reads and key the state by them, as in exchange({named}, by=...)."
            )
        if len(keys) != len(first.columns.names):
            raise RecoveryError(
                f"{saved} downstream of an exchange {first}, but its keys are {', '.join(keys)}, and the "
                "function needs the columns of the exchange. Start with as many workers as before, or "
                "key the state by the columns of the exchange."
            )
        return first

    def _agree(self) -> bool:
        """Return whether every input brings rows of equal keys to the same worker."""
        functions = [each for each in self.pacts if isinstance(each, ExchangeByFunction)]
        return functions == list(self.pacts) and all(each.deals_as(functions[0]) for each in functions)


Dealers: TypeAlias = Mapping[str, Dealer]
"""By the place of each operator that has an exchange by a function before it."""


def dealers_of(plan: Plan) -> dict[str, Dealer]:
    """The dealers of all operators of a plan whose state is not dealt out by the hash of keys."""
    arriving: dict[str, list[Pact]] = {}
    for routes in routes_of(plan, plan.graph()).values():
        for route in routes:
            arriving.setdefault(place_of(plan.nodes[route.reader.operator]), []).append(route.pact)
    return {
        place: Dealer(tuple(each for each in pacts if isinstance(each, ExchangeBy | ExchangeByFunction)))
        for place, pacts in arriving.items()
        if any(isinstance(each, ExchangeByFunction) for each in pacts)
    }


def restored_from(
    chain: Sequence[Sequence[SavedPart]],
    worker: int,
    workers: int,
    dealers: Dealers | None = None,
    names: Mapping[str, str] | None = None,
) -> Restored:
    """The state that a worker resumes from: a complete snapshot and later increments, in order.

    ``dealers`` says which worker owns the rows of a place; without one, the hash of their keys does.
    ``names`` says how an error calls the operator of a place, if not by that.
    """
    latest = chain[-1]
    same = latest[0].workers == workers  # all of a chain are of one number of workers
    places = {place for link in chain for part in link for place in part.instances}
    return Restored(
        latest[0].epoch,
        {
            place: _restored(
                place,
                chain,
                worker,
                workers,
                (dealers or {}).get(place),
                (names or {}).get(place, place),
                is_same=same,
            )
            for place in sorted(places)
        },
    )


def parts_needed(parts: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """The parts of one snapshot that a worker must read: its own, or all if the number of workers differs."""
    return (parts[worker],) if len(parts) == workers else parts


def _restored(
    place: str,
    chain: Sequence[Sequence[SavedPart]],
    worker: int,
    workers: int,
    dealer: Dealer | None,
    who: str,
    *,
    is_same: bool,
) -> RestoredInstance:
    mine = [part for part in chain[-1] if not is_same or part.worker == worker]
    last = [(part.worker, part.instances[place]) for part in mine if place in part.instances]
    held = [Held(output, tuple(time)) for _, each in last for output, time in each.held]
    awaited = [Awaited(port, tuple(time)) for _, each in last for port, time in each.awaited]
    ahead = [
        SentAhead(each.output, each.target, each.port, tuple(each.time), batch)
        for saver, instance in last
        if saver % workers == worker
        for each in instance.ahead
        for batch in _table(each.rows).combine_chunks().to_batches()
    ]
    return RestoredInstance(
        _tables(place, chain, worker, workers, dealer, who, is_same=is_same),
        held if is_same else list(dict.fromkeys(held)),
        awaited if is_same else list(dict.fromkeys(awaited)),
        ahead,
        must_regain=is_same,
        was_saved=True,
    )


def _tables(
    place: str,
    chain: Sequence[Sequence[SavedPart]],
    worker: int,
    workers: int,
    dealer: Dealer | None,
    who: str,
    *,
    is_same: bool,
) -> Mapping[str, pa.Table]:
    pieces: dict[str, dict[int, list[Piece]]] = {}
    for link in chain:
        for part in link:
            if is_same and part.worker != worker:
                continue
            instance = part.instances.get(place)
            for name, saved in instance.pieces.items() if instance is not None else ():
                piece = Piece(_table(saved.rows), saved.keys, saved.identity, saved.is_whole, saved.adds_up)
                pieces.setdefault(name, {}).setdefault(part.worker, []).append(piece)
    return {name: _rows(who, name, by, worker, workers, dealer, is_same) for name, by in pieces.items()}


def _rows(
    who: str,
    name: str,
    pieces: Mapping[int, Sequence[Piece]],
    worker: int,
    workers: int,
    dealer: Dealer | None,
    is_same: bool,
) -> pa.Table:
    """A worker's rows of one piece of state, from all workers that saved it."""
    tables = [merged(each) for each in pieces.values()]
    keys = next(iter(pieces.values()))[-1].keys
    if is_same:
        return tables[0]
    if keys is None:
        savers = [saver for saver, table in zip(pieces, tables, strict=True) if table.num_rows]
        if savers:
            raise RecoveryError(
                f"{who} has the state '{name}', which has no keys and was saved by worker "
                f"{', '.join(map(str, savers))} of a different number of workers; its owner among "
                f"{workers} workers is unknown. Start with as many workers as before, or declare keys for "
                "it."
            )
        return tables[0]
    table = pa.concat_tables(tables)
    if not keys:
        return table
    if dealer is not None:
        return dealer.owned(table, keys, worker, workers, f"{who} has the state '{name}', which")
    return owned(table, keys, worker, workers)


# Store the rows of a message next to it, without copies.
#
# A message of MessagePack is encoded with a mark in the place of each table. Then each mark is replaced by
# the bytes of its table, as Arrow writes them: views of the very memory, or the mapped file, in which rows
# lie. So what is larger than memory can be saved. The reader of the message sees bytes, as if they had been
# encoded there.

# Texts never have such a byte, and numbers not so many of them.
_MARK: Final = struct.Struct(">12sI")
_FILL: Final = b"\xff" * 12
# How MessagePack begins bytes: fewer than 2^8, 2^16, 2^32.
_SHORT, _MIDDLE, _LONG = struct.Struct(">BB"), struct.Struct(">BH"), struct.Struct(">BI")


class Bodies:
    """The tables of one message, in the order in which it names them."""

    def __init__(self) -> None:
        self._tables: list[list[memoryview]] = []

    def mark(self, table: pa.Table) -> bytes:
        """The placeholder of a table in a message."""
        sink = _Views()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._tables.append(sink.views)
        return _MARK.pack(_FILL, len(self._tables) - 1)

    def put_into(self, message: bytes) -> list[bytes | memoryview]:
        """The message with all tables in the places of their marks, in parts."""
        parts: list[bytes | memoryview] = []
        at = 0
        for number, views in enumerate(self._tables):
            mark = _head(_MARK.size) + _MARK.pack(_FILL, number)
            begin = message.index(mark, at)
            parts.append(message[at:begin] + _head(sum(map(len, views))))
            parts.extend(views)
            at = begin + len(mark)
        return [*parts, message[at:]]


class _Views:
    """A file for Arrow that keeps what is written as it is given, without a copy."""

    closed = False

    def __init__(self) -> None:
        self.views: list[memoryview] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        view = memoryview(data).cast("B")
        self.views.append(view)
        return len(view)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def _head(length: int) -> bytes:
    if length < 1 << 8:
        return _SHORT.pack(0xC4, length)
    return _MIDDLE.pack(0xC5, length) if length < 1 << 16 else _LONG.pack(0xC6, length)


def _saved(snapshot: InstanceSnapshot, bodies: Bodies) -> _SavedInstance:
    return _SavedInstance(
        {
            name: _SavedPiece(
                piece.keys,
                piece.identity,
                piece.is_whole,
                bodies.mark(piece.table),
                piece.adds_up,
            )
            for name, piece in snapshot.pieces.items()
        },
        [(output, time) for output, time in snapshot.held],
        [(port, time) for port, time in snapshot.awaited],
        [
            _SavedAhead(
                each.output,
                each.target,
                each.port,
                each.time,
                bodies.mark(pa.Table.from_batches([each.batch])),
            )
            for each in snapshot.ahead
        ],
    )


def _table(rows: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(rows)).read_all()
