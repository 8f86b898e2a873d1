"""Beginning with a savepoint: a query with a checkpoint of its own that goes on from what another has kept.

The other query is not disturbed, and may be gone: what was kept is copied. Epochs go on after that of the
savepoint, inputs from where they stood, and nothing that the other has published is published here. The
inputs must be the same sources: a streaming DataFrame has its offsets in its own checkpoint and cannot be.
"""

from pointstamp.errors import AlreadyStored, RecoveryError
from pointstamp.recovery.journal import Journal
from pointstamp.recovery.ledger import Entry, FlowShape, Ledger, Savepoint
from pointstamp.recovery.queryspec import QuerySpec
from pointstamp.recovery.shape import check_shape, shape_of


def adopt_savepoint(spec: QuerySpec, ledger: Ledger, shape: FlowShape) -> None:
    """Copy a savepoint into the checkpoint of a query that has not begun, and begin with it."""
    assert spec.savepoint is not None
    savepoint = _found(spec)
    for commit in savepoint.commits:
        for part in commit.parts:
            try:
                spec.storage.create(part.name, spec.savepoint.checkpoint.read(part.name))
            except AlreadyStored:
                continue  # copied before a crash that came before the journal's first entry
    ledger.adopt(shape, savepoint)


def _found(spec: QuerySpec) -> Savepoint:
    assert spec.savepoint is not None
    storage, name = spec.savepoint
    journal: Journal[Entry] = Journal.open(storage, Entry)
    other = Ledger(journal, spec.sources)
    if other.shape is None:
        raise RecoveryError(f"'{storage.address}' is no checkpoint: it has no journal to find '{name}' in.")
    check_shape(other.shape, shape_of(spec.plan, other.shape.query), accept_changes=spec.accept_changes)
    for savepoint in other.savepoints:
        if savepoint.name == name:
            return savepoint
    known = ", ".join(f"'{each.name}'" for each in other.savepoints) or "none"
    raise RecoveryError(f"'{storage.address}' has no savepoint '{name}'; it has {known}.")
