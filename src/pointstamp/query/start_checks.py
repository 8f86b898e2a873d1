"""Checks before a query starts: identity, sink and epochs of inputs."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from pointstamp.arrow.epoch_column import EpochColumn
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Sink, complete_sink
from pointstamp.connectors.source import complete_source
from pointstamp.driver.feeder import EpochColumns, epoch_columns
from pointstamp.errors import AlreadyStored, FlowError, NotStored, RecoveryError
from pointstamp.expressions.dates import parse_duration
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.flow_shape import check_shape
from pointstamp.journal.history import Entry, FlowShape, stored_shape
from pointstamp.journal.journal import Journal
from pointstamp.query.mission import QuerySpec, SavepointPlace
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.exclusivity import check_exclusive
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed import seal, unseal
from pointstamp.topology.domain import EPOCHS

QUERY: Final = "query"
"""The object of a checkpoint that names its query."""

_SINK_METHODS: Final = ("for_query", "writer", "publisher")


def query_id_at(storage: Storage) -> str:
    """The identity of a checkpoint's query, the same over all restarts; a new one for a new checkpoint.

    StorageError where the storage does not tell two drivers apart, which is tried first.
    """
    check_exclusive(storage)
    with suppress(AlreadyStored):
        if storage.size(QUERY) is None:
            _check_no_journal(storage)
            storage.create(QUERY, seal(str(uuid4()).encode(), QUERY, QUERY))
    return known_query_id(storage)


def known_query_id(storage: Storage) -> str:
    """The identity of the query whose checkpoint this is; nothing is written."""
    try:
        return unseal(storage.read(QUERY), QUERY, QUERY).decode()
    except NotStored:
        _check_no_journal(storage)
        return ""  # there is no checkpoint, and whoever looks will say so


def _check_no_journal(storage: Storage) -> None:
    if storage.list("journal/"):
        raise RecoveryError(
            f"'{storage.address}' has a journal, but no object '{QUERY}', which names the query of the "
            f"journal. Restore '{QUERY}' from a copy, or start with a new checkpoint."
        )


def check_resumable(
    storage: Storage, now: FlowShape, *, accept_changes: bool, moved_from: Mapping[str, str]
) -> None:
    """RecoveryError if a checkpoint belongs to another flow or other sources; nothing is written."""
    query = known_query_id(storage)
    journal: Journal[Entry] = Journal.open(storage, Entry, query=query)
    before = stored_shape(journal.entries())
    if before is not None:
        check_shape(before, now, accept_changes=accept_changes, moved_from=moved_from)


def savepoint_at(savepoint: tuple[str, str] | None) -> SavepointPlace | None:
    """The savepoint to begin with, given by the path of its checkpoint and its name."""
    if savepoint is None:
        return None
    storage = storage_at(savepoint[0])
    return SavepointPlace(storage, savepoint[1], known_query_id(storage))


def sink_at(output: str | Sink) -> Sink:
    """The given sink, or Parquet files at the given path; FlowError for anything else."""
    if isinstance(output, str):
        return ParquetSink(output)
    lacking = [method for method in _SINK_METHODS if method not in dir(output)]
    if lacking or isinstance(output, type):
        given = (
            f"the class {output.__name__}" if isinstance(output, type) else f"of type {type(output).__name__}"
        )
        without = f", which has no {' and no '.join(lacking)}" if lacking else ", not an object of it"
        raise FlowError(
            f"output must be the path of a folder or a sink, got {given}{without}. A sink has the methods "
            f"{', '.join(_SINK_METHODS)} (ps.ports.Sink), such as ps.io.DeltaSink(path) or a custom one."
        )
    return output


def check_sink(spec: QuerySpec) -> QuerySpec:
    """Let the sink refuse outputs and places that it cannot work with now, before the query starts."""
    sink = spec.sink.for_query(spec.query_id, spec.schemas or spec.plan.output_schemas())
    complete_sink(sink).check_place()
    return spec


def check_epochs(plan: Plan, streams: Mapping[str, Any], epoch: EpochColumns) -> dict[str, EpochColumn]:
    """The epoch columns by input, after a check that inputs and columns fit the flow."""
    if plan.root is not EPOCHS:
        raise FlowError(
            f"flow '{plan.name}' has custom times, but a query saves and publishes by epoch. Use a flow "
            "without times=."
        )
    plan.check_outputs()
    names = list(plan.named(NodeKind.INPUT))
    if set(streams) != set(names):
        raise FlowError(
            f"flow '{plan.name}' has the inputs {listed(names)}, got {listed(streams)}. Give one for each."
        )
    return epoch_columns(plan, epoch)


def tick_seconds(
    plan: Plan, tick_every: str | timedelta | None, columns: Mapping[str, object]
) -> float | None:
    """The distance of clock ticks; FlowError if it is not a duration, or if epochs are columns."""
    if tick_every is None:
        return None
    seconds = parse_duration(tick_every, f"flow '{plan.name}': tick_every").total_seconds()
    if seconds <= 0:
        raise FlowError(f"flow '{plan.name}': tick_every must be above 0, got {tick_every!r}.")
    if columns:
        raise FlowError(
            f"flow '{plan.name}': input {listed(columns)} has an epoch column, so tick_every= cannot "
            "define its epochs. Remove tick_every=."
        )
    return seconds


def check_sources(sources: Mapping[str, Any]) -> None:
    """Let sources that can check themselves do it now: a mistake should not be tried again and again."""
    for source in sources.values():
        complete_source(source).check()


def listed(names: Iterable[str]) -> str:
    """Names in quotes, for messages."""
    return ", ".join(f"'{name}'" for name in names) or "none"
