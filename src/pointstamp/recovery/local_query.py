"""Queries on this machine, without Spark: the same snapshots, journal and publishing, in processes or in one.

``start`` begins a query on sources; ``run_to_end`` runs a flow over data at hand, with a checkpoint: when it
is called again with the same data after whatever ended it, it goes on from there.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.dataflow.plan import Kind, Plan
from pointstamp.dataflow.schema import to_batches
from pointstamp.errors import FlowError
from pointstamp.recovery.crew import InProcessLauncher, Launcher
from pointstamp.recovery.observing import Judge
from pointstamp.recovery.policy import RestartPolicy, SnapshotPolicy
from pointstamp.recovery.processcrew import ProcessLauncher
from pointstamp.recovery.query import Query
from pointstamp.recovery.queryspec import QuerySpec
from pointstamp.recovery.starting import check_epochs, query_id_at, savepoint_at, sink_at
from pointstamp.recovery.supervisor import Supervisor
from pointstamp.runtime.feeding import EpochColumns, items_of
from pointstamp.runtime.mesh import SILENCE_SECONDS_MAX
from pointstamp.runtime.results import Results
from pointstamp.sinks.port import Sink
from pointstamp.sinks.reading import published, read_published
from pointstamp.sources.memory import Rows
from pointstamp.sources.port import Source
from pointstamp.storage.anywhere import storage_at


def start(
    plan: Plan,
    streams: Mapping[str, Any],
    *,
    checkpoint: str,
    output: str | Sink,
    workers: int = 1,
    processes: int | None = None,
    epoch: EpochColumns = None,
    snapshots: SnapshotPolicy | None = None,
    restarts: RestartPolicy | None = None,
    available_now: bool = False,
    accept_changes: bool = False,
    savepoint: tuple[str, str] | None = None,
    silence_seconds_max: float = SILENCE_SECONDS_MAX,
    judge: Judge | None = None,
) -> Query:
    """Start a flow on sources, in processes of their own or on workers in this process."""
    columns = check_epochs(plan, streams, epoch)
    storage = storage_at(checkpoint)
    spec = QuerySpec(
        plan,
        {name: _source(plan, name, each) for name, each in streams.items()},
        sink_at(output),
        storage,
        processes or workers,
        query_id_at(storage),
        snapshots or SnapshotPolicy(),
        restarts or RestartPolicy(),
        columns,
        available_now,
        accept_changes=accept_changes,
        closes=not available_now,
        savepoint=savepoint_at(savepoint),
        judge=judge,
    )
    launcher: Launcher = InProcessLauncher()
    if processes is not None:
        launcher = ProcessLauncher(silence_seconds_max=silence_seconds_max)
    return Query(Supervisor(spec, launcher)).begin()


def run_to_end(
    plan: Plan,
    data: Mapping[str, Any],
    *,
    checkpoint: str,
    workers: int,
    processes: int | None,
    epoch: EpochColumns,
) -> Results:
    """Run a flow over data at hand to its end, going on from where a run of this checkpoint has come."""
    columns = epoch if isinstance(epoch, Mapping) else dict.fromkeys(data, epoch) if epoch else {}
    sources = {name: _rows(plan, name, each, columns.get(name)) for name, each in data.items()}
    output = f"{checkpoint.rstrip('/')}/output"
    query = start(plan, sources, checkpoint=checkpoint, output=output, workers=workers, processes=processes)
    try:
        query.awaitTermination()
    finally:
        query.stop(finish=False)
    epochs = max((len(source.batches) for source in sources.values()), default=0)
    return _results(plan, output, epochs)


def _source(plan: Plan, name: str, given: Any) -> Source:  # noqa: ANN401 - whatever the user gave
    if all(hasattr(given, method) for method in ("watch", "read", "after")):
        source: Source = given
        return source
    return _rows(plan, name, given, None)


def _rows(plan: Plan, name: str, given: Any, column: str | None) -> Rows:  # noqa: ANN401 - as above
    """Data at hand as a source: item i is epoch i."""
    if hasattr(given, "__next__"):
        raise FlowError(
            f"input '{name}' was given an iterator, which can be read once; what is to be recovered must be "
            "read again. Give a list, or a source such as ps.files(path)."
        )
    schema = plan.named(Kind.INPUT)[name].outputs[0].schema
    batches: dict[int, pa.RecordBatch] = {}
    for time, rows in items_of(plan, name, given, column):
        table = pa.Table.from_batches(to_batches(rows, schema, f"input '{name}'"), schema)
        batches[time] = pa.Table.to_batches(table.combine_chunks())[0] if table.num_rows else _none(schema)
    last = max(batches, default=-1)
    return Rows(tuple(batches.get(number, _none(schema)) for number in range(last + 1)))


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _results(plan: Plan, output: str, epochs: int) -> Results:
    results = Results(plan.output_schemas())
    found = published(output)
    for name in results:
        table = read_published(output, name)
        last = max(epochs - 1, found.epochs_through or 0)
        for epoch in range(last + 1):
            rows = table.filter(pc.equal(table.column("epoch"), epoch)).drop_columns(["epoch"])
            if epoch < epochs or rows.num_rows:
                results[name].add(epoch, rows)
    return results
