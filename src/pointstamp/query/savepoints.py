"""Savepoints: their names, and starting a query from one.

A name stands for one savepoint until that is dropped: a user who relies on it must not find another one in
its place. When a savepoint is dropped, every file goes that nothing else needs.

The other query is not disturbed, and may be gone: the savepoint is copied. Epochs continue after that of the
savepoint, inputs from where they stood, and nothing that the other query has published is published here. The
inputs must be the same sources. A streaming DataFrame cannot be one of them, because its offsets are in its
own checkpoint.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from pointstamp.connectors.source import Source
from pointstamp.errors import FlowError, NotStored, RecoveryError, StorageError
from pointstamp.journal.flow_shape import check_shape
from pointstamp.journal.history import Committed, Entry, PartSaved, Savepoint, Ticked, stored_shape
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.journal.snapshot_parts import moved_part, read_part, stored_part
from pointstamp.query.mission import QuerySpec, part_name, part_origin
from pointstamp.storage.port import Storage

_log = logging.getLogger("pointstamp.query")


def check_name(name: object, query: str) -> None:
    """FlowError if this cannot be the name of a savepoint."""
    if not isinstance(name, str) or not name.strip():
        raise FlowError(
            f"query '{query}': the name of a savepoint must be a string, got {name!r}. Give a string such as "
            "'monday'; to save without a name, use checkpoint()."
        )


def check_new(name: str, kept: Sequence[Savepoint], being_taken: Collection[str], query: str) -> None:
    """FlowError if a savepoint has this name already, or is about to get it."""
    before = next((each for each in kept if each.name == name), None)
    if before is None and name not in being_taken:
        return
    is_what = "is being taken" if before is None else f"was taken at epoch {before.commits[-1].epoch}"
    raise FlowError(
        f"query '{query}': a savepoint '{name}' {is_what}. Choose another name, such as '{name} 2'."
    )


def check_kept(name: str, kept: Sequence[Savepoint], whose: str) -> None:
    """FlowError if there is no savepoint of this name to drop."""
    if not any(each.name == name for each in kept):
        known = ", ".join(f"'{each.name}'" for each in kept) or "none"
        raise FlowError(f"{whose} has no savepoint '{name}' to drop; it has {known}.")


def drop_savepoint(
    storage: Storage, sources: Mapping[str, Source], query: str, name: str, *, owner: str, at: float
) -> None:
    """Drop a savepoint of a query that is stopped; one that runs nevertheless is fenced and ends.

    ``sources`` need only have the names of the query's inputs: nothing is read, and no summary is written.
    """
    journal: Journal[Entry] = Journal.open(storage, Entry, query=query)
    check_kept(name, Ledger(journal, sources).savepoints, f"'{storage.address}'")
    generation = journal.start_generation(owner, at)
    ledger = Ledger(journal, sources)
    check_kept(name, ledger.savepoints, f"'{storage.address}'")
    ledger.drop(name)
    remove_parts(storage, ledger, generation)


def check_savepoint(spec: QuerySpec) -> Savepoint:
    """Return the savepoint with which a query begins; RecoveryError if there is none, or of another flow."""
    assert spec.savepoint is not None
    storage, name, query = spec.savepoint
    journal: Journal[Entry] = Journal.open(storage, Entry, query=query)
    shape = stored_shape(journal.entries())
    if shape is None:
        raise RecoveryError(
            f"'{storage.address}' is not a checkpoint: it has no journal, so it cannot have a savepoint "
            f"'{name}'."
        )
    check_shape(shape, spec.shape, accept_changes=spec.accept_changes, moved_from=spec.moved_from)
    savepoints = Ledger(journal, spec.sources).savepoints
    for savepoint in savepoints:
        if savepoint.name == name:
            return savepoint
    known = ", ".join(f"'{each.name}'" for each in savepoints) or "none"
    raise RecoveryError(f"'{storage.address}' has no savepoint '{name}'; it has {known}.")


def adopt_savepoint(spec: QuerySpec, ledger: Ledger) -> None:
    """Copy a savepoint into the checkpoint of a query that has not begun, and begin with it."""
    assert spec.savepoint is not None
    savepoint = check_savepoint(spec)
    commits = [
        replace(
            commit,
            parts=[_moved(spec, ledger, commit, worker, part) for worker, part in enumerate(commit.parts)],
        )
        for commit in savepoint.commits
    ]
    ledger.adopt(spec.shape, replace(savepoint, commits=commits))


def _moved(spec: QuerySpec, ledger: Ledger, commit: Committed, worker: int, part: PartSaved) -> PartSaved:
    """Store a part as one of this query, under a name of this generation, so that it is removed in time.

    Without a part of its complete snapshot a savepoint is lost. If a part with later changes is damaged, the
    query resumes from an older snapshot: the part is left out, and the search for the newest complete
    snapshot misses it.
    """
    assert spec.savepoint is not None
    other = spec.savepoint
    name = part_name(worker, commit.epoch, ledger.generation)
    content = b""
    try:
        content = read_part(part, other.checkpoint)
        moved, sealed = moved_part(content, part, other.query, name, spec.query_id)
    except StorageError as error:
        if not (content or isinstance(error, NotStored)):
            raise  # a storage that does not answer says nothing about the part
        damage = f"savepoint '{other.name}' of {other.checkpoint.address} is damaged: {error}"
        if commit.is_whole:
            raise RecoveryError(
                f"{damage} Restore the file from a copy, or start with another savepoint."
            ) from error
        _log.warning("query '%s': %s", spec.plan.name, damage)
        return PartSaved(name, part.size_bytes, part.crc32)
    return stored_part(moved, sealed, spec.storage, len(part.content) and moved.size_bytes)


# What a checkpoint no longer needs: parts of snapshots that no commit and no savepoint names.
#
# Invariant: what is removed was written by this generation or an older one, and is not about to be committed.
# So a driver that was replaced and does not know it yet touches nothing of its successor.


def remove_unneeded(
    spec: QuerySpec, ledger: Ledger, generation: int, gone: list[Ticked] | None = None
) -> None:
    """Remove parts that are no longer needed, and the input of ticks that will never be read again."""
    remove_parts(spec.storage, ledger, generation)
    if gone and spec.forget is not None:
        spec.forget(gone)


def remove_parts(storage: Storage, ledger: Ledger, generation: int) -> None:
    """Remove parts of snapshots that no commit names, except what this generation is about to commit."""
    needed = ledger.names_needed()
    committed = ledger.committed
    for name in storage.list("snapshots/"):
        if name in needed or (origin := part_origin(name)) is None:
            continue
        epoch, writer = origin
        is_live = writer == generation and (committed is None or epoch > committed.epoch)
        if writer <= generation and not is_live:
            storage.delete(name)
