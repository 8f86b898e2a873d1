"""Savepoints: their names, and a query with a checkpoint of its own that goes on from what another has kept.

A name stands for one savepoint for ever: who counts on what it kept must not find another in its place.

The other query is not disturbed, and may be gone: what was kept is copied. Epochs go on after that of the
savepoint, inputs from where they stood, and nothing that the other has published is published here. The
inputs must be the same sources: a streaming DataFrame has its offsets in its own checkpoint and cannot be.
"""

from collections.abc import Collection, Sequence

from pointstamp.errors import AlreadyStored, FlowError, RecoveryError
from pointstamp.recovery.history import Entry, FlowShape, Savepoint
from pointstamp.recovery.journal import Journal
from pointstamp.recovery.ledger import Ledger
from pointstamp.recovery.queryspec import QuerySpec
from pointstamp.recovery.shape import check_shape, shape_of


def check_name(name: object, query: str) -> None:
    """FlowError where something is no name for a savepoint."""
    if not isinstance(name, str) or not name.strip():
        raise FlowError(
            f"query '{query}': a savepoint needs a name to be found by, and came with {name!r}. Give a text "
            "such as 'monday'; to save without a name, use checkpoint()."
        )


def check_new(name: str, kept: Sequence[Savepoint], being_taken: Collection[str], query: str) -> None:
    """FlowError where a savepoint has this name already, or is about to."""
    before = next((each for each in kept if each.name == name), None)
    if before is None and name not in being_taken:
        return
    is_what = "is being taken" if before is None else f"was taken at epoch {before.commits[-1].epoch}"
    raise FlowError(
        f"query '{query}': a savepoint '{name}' {is_what}, and a name is given once. Choose another, such "
        f"as '{name} 2'."
    )


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
