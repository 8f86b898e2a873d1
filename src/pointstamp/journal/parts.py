"""Parts of a snapshot as bytes: the saved state of one worker.

A part holds the pieces of state of each operator as Arrow tables, and what it held, awaited and had sent
ahead. A snapshot is a chain: the parts of a whole one, then those of each later one with what changed since.
It is restored to any number of workers: rows go to the worker that owns their key, by the same hash or
function that exchanges them (``dealers``); state without keys belongs to the worker that saved it, and stays
with it.

A part is tied to its place twice: it is sealed with its query and its name, which says epoch, generation and
worker; and the commit that names it has its checksum. So no other part is taken for it, not even one of the
same name from a copy of the checkpoint with which another query continued.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa

from pointstamp.errors import DamagedSnapshot, NotStored, RecoveryError, StorageError
from pointstamp.journal.bodies import Bodies
from pointstamp.journal.dealers import Dealer, Dealers
from pointstamp.journal.saved_part import PartSaved
from pointstamp.state.pieces import Piece, merged, owned
from pointstamp.storage.port import Content, Storage
from pointstamp.storage.sealed import checksum_of, sealed_parts, unseal
from pointstamp.storage.words import joined
from pointstamp.worker.snapshots import (
    Awaited,
    Held,
    InstanceSnapshot,
    Restored,
    RestoredInstance,
    SentAhead,
    WorkerSnapshot,
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
    """A part as it was saved; StorageError where it is not whole, or not the one that was committed."""
    try:
        return msgspec.msgpack.decode(_unsealed(content, part, query), type=SavedPart)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"'{part.name}' is intact, but cannot be read as a part of a snapshot: {error}."
        ) from error


def whole_part(part: PartSaved, storage: Storage, query: str) -> SavedPart:
    """A part as it was saved; DamagedSnapshot where it is not there, not whole, or another one.

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
    same = all(part.workers == workers for link in chain for part in link)
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
