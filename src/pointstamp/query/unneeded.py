"""What a checkpoint no longer needs: parts of snapshots that no commit and no savepoint names.

Invariant: what is removed was written by this generation or an older one, and is not about to be committed.
So a driver that was replaced and does not know it yet touches nothing of its successor.
"""

from pointstamp.journal.history import Ticked
from pointstamp.journal.ledger import Ledger
from pointstamp.query.mission import part_origin
from pointstamp.query.queryspec import QuerySpec
from pointstamp.storage.port import Storage


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
