"""Queries on this machine, without Spark, in one process or several.

``start`` begins a query on sources; ``run_to_end`` runs a flow over data at hand, with a checkpoint: when it
is called again with the same data, it resumes from there, no matter what ended it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pointstamp.arrow.epoch_column import EpochColumn, EventEpochs, with_epochs
from pointstamp.arrow.schema import ExtraColumns, input_batches
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.chain import Chain
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.sink import Sink
from pointstamp.connectors.source import Source, is_source
from pointstamp.driver.feeder import EpochColumns, items_of
from pointstamp.driver.gang import ProcessGang
from pointstamp.driver.liveness import Sign
from pointstamp.driver.messages import Failed, Finish, InCall, Leave, Order, Report
from pointstamp.driver.results import Results
from pointstamp.driver.worker_process import Seat
from pointstamp.errors import FlowError, TransportError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.query.crew import CrewError, InProcessLauncher, Launcher, MeshCrew
from pointstamp.query.member import be_member
from pointstamp.query.mission import Mission, QuerySpec
from pointstamp.query.observation import Judge
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.query import Query, begin_query
from pointstamp.query.start_checks import (
    check_epochs,
    check_sink,
    check_sources,
    query_id_at,
    savepoint_at,
    sink_at,
    tick_seconds,
)
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.anywhere import storage_at

_TICKS_MAX: Final = 1024
"""Rows at hand are taken in about so many ticks, however many epochs they have; each tick is saved."""

EPOCH: Final = "epoch of the row"
"""The column for the epochs of rows at hand; longer where an input declares one of this name."""


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
    tick_every: str | timedelta | None = None,
) -> Query:
    """Start a flow on sources, in separate processes or on workers in this process."""
    columns = check_epochs(plan, streams, epoch)
    sources = {name: _source(plan, name, each, columns.get(name)) for name, each in streams.items()}
    check_sources(sources)
    storage = storage_at(checkpoint)
    spec = QuerySpec(
        plan,
        sources,
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
        tick_every_seconds=tick_seconds(plan, tick_every, columns),
        judge=judge,
    )
    launcher: Launcher = InProcessLauncher()
    if processes is not None:
        launcher = ProcessLauncher(silence_seconds_max=silence_seconds_max)
    return begin_query(Supervisor(check_sink(spec), launcher))


def run_to_end(
    plan: Plan,
    data: Mapping[str, Any],
    *,
    checkpoint: str,
    workers: int,
    processes: int | None,
    epoch: EpochColumns,
    judge: Judge | None = None,
) -> Results:
    """Run a flow over given data to its end; resume where an earlier run with this checkpoint stopped.

    Without epoch columns item i is epoch i, and each is a tick. With one, each epoch that has rows is a unit,
    in order, and its rows carry their epoch in a column: so gaps between epochs cost nothing (days written as
    20240131), and data that is added later resumes from there whatever its epochs are.
    """
    columns = check_epochs(plan, data, epoch)
    given = {name: _by_epoch(plan, name, each, columns.get(name)) for name, each in data.items()}
    fed = sorted({number for batches in given.values() for number in batches})
    stamp = _unused_column(plan) if columns else None
    output = f"{checkpoint.rstrip('/')}/output"
    query = start(
        plan,
        {n: _counted(plan, n, each) if stamp is None else _stamped(each, stamp) for n, each in given.items()},
        checkpoint=checkpoint,
        output=output,
        workers=workers,
        processes=processes,
        epoch=stamp,
        judge=judge,
    )
    try:
        query.await_termination()
    finally:
        query.stop(finish=False)
    return _results(plan, output, fed)


def _source(plan: Plan, name: str, given: Any, column: EpochColumn | None) -> Source:  # noqa: ANN401 - whatever came
    if isinstance(given, Rows):
        return replace(given, name=given.name or name)
    if is_source(given):
        return given
    _check_again(name, given)
    # With an epoch column an item is what comes together, and its rows say their epochs when they are read.
    wanted = with_epochs(_schema(plan, name), column)
    who = f"input '{name}'"
    given_items = [rows for _, rows in items_of(plan, name, given, None)]
    items = [input_batches(rows, wanted, who, _extra(plan, name)) for rows in given_items]
    return Rows(tuple(pa.concat_batches([_none(wanted), *batches]) for batches in items), name=name)


def _extra(plan: Plan, name: str) -> ExtraColumns:
    return plan.named(NodeKind.INPUT)[name].extra_columns


def _check_again(name: str, given: Any) -> None:  # noqa: ANN401 - whatever came
    if isinstance(given, Iterator):
        raise FlowError(
            f"input '{name}' is an iterator, but a run with a checkpoint must be able to read its inputs "
            "again. Give a list, or a source such as ps.io.files(path)."
        )


def _by_epoch(
    plan: Plan,
    name: str,
    given: Any,  # noqa: ANN401 - whatever came
    column: EpochColumn | None,
) -> dict[int, pa.RecordBatch]:
    """Data at hand as one batch for each epoch that it has; where all of it is known, no row is late."""
    _check_again(name, given)
    schema = _schema(plan, name)
    if isinstance(column, EventEpochs):
        items = [rows for _, rows in items_of(plan, name, given, None)]
        extra = _extra(plan, name)
        whole = [b for rows in items for b in input_batches(rows, schema, f"input '{name}'", extra)]
        given = pa.Table.from_batches(whole, schema)
    batches: dict[int, pa.RecordBatch] = {}
    for time, rows in items_of(plan, name, given, column):
        # With an epoch column an item may begin with the epoch that the one before has ended with.
        parts = [
            batches.get(time, _none(schema)),
            *input_batches(rows, schema, f"input '{name}'", _extra(plan, name)),
        ]
        batches[time] = pa.concat_batches(parts)
    return batches


def _counted(plan: Plan, name: str, batches: Mapping[int, pa.RecordBatch]) -> Rows:
    """Item i is epoch i."""
    none = _none(_schema(plan, name))
    return Rows(tuple(batches.get(number, none) for number in range(max(batches, default=-1) + 1)))


def _unused_column(plan: Plan) -> str:
    """A name for a column that no input declares."""
    declared = {name for node in plan.named(NodeKind.INPUT).values() for name in node.outputs[0].schema.names}
    name = EPOCH
    while name in declared:
        name += "'"
    return name


def _stamped(batches: Mapping[int, pa.RecordBatch], column: str) -> Rows:
    """The rows of each epoch that has any, with the epoch in a column that is removed again later."""
    filled = {number: batch for number, batch in sorted(batches.items()) if batch.num_rows}
    stamped = [
        batch.append_column(column, pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows))
        for number, batch in filled.items()
    ]
    return Rows(tuple(stamped), 1 + len(stamped) // _TICKS_MAX, epochs=tuple(filled))


def _schema(plan: Plan, name: str) -> pa.Schema:
    return plan.named(NodeKind.INPUT)[name].outputs[0].schema


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _results(plan: Plan, output: str, fed: list[int]) -> Results:
    """The published epochs: the given ones, and later ones in which an output has rows."""
    if not fed and Chain(storage_at(output)).last() is None:
        return Results(plan.output_schemas())
    tables = {name: table.sort_by("epoch") for name, table in read_changes(output).items()}
    numbers = {name: table.column("epoch").to_numpy() for name, table in tables.items()}
    epochs = sorted({*fed, *(number for each in numbers.values() for number in np.unique(each).tolist())})
    results = Results(plan.output_schemas())
    for name, table in tables.items():
        ends = np.searchsorted(numbers[name], [[epoch, epoch + 1] for epoch in epochs]).tolist()
        rows = table.drop_columns(["epoch"])
        for epoch, (begin, end) in zip(epochs, ends, strict=True):
            results[name].add(epoch, rows.slice(begin, end - begin))
    return results


# Crews in processes of this machine.

_CONSEQUENCE: Final = TransportError.__name__
# How long a death may take to be known after a connection was seen to be closed.
_DEATH_SECONDS_MAX: Final = 0.5


class ProcessCrew(MeshCrew):
    """Members in processes, which end with this one."""

    def __init__(self, gang: ProcessGang, workers: int) -> None:
        assert gang.mesh is not None
        super().__init__(gang.mesh, workers)
        self._gang = gang
        self._were_told = False
        self._stuck: set[int] = set()  # those that are known to be stuck in native code
        gang.forget_folder()

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        self._were_told = self._were_told or isinstance(order, (Finish, Leave))
        super().post(worker, order)

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived, and of members that are stuck what is seen from outside."""
        reports = super().collect()
        # What another member says of a connection that was closed says less than who has died of what.
        if any(isinstance(report, Failed) and report.kind == _CONSEQUENCE for _, report in reports):
            self._gang.wait_for_death(_DEATH_SECONDS_MAX)
            if words := self.deaths():
                raise CrewError(words)
        for worker, call in enumerate(self._gang.look()):
            if call is not None and worker not in self._stuck:
                self._stuck.add(worker)
                reports.append((worker, call))
            elif call is None and worker in self._stuck:
                self._stuck.discard(worker)
                reports.append((worker, InCall("", "", "", 0.0)))
        return reports

    @property
    def pids(self) -> list[int]:
        """The process of each member."""
        return self._gang.pids

    def deaths(self) -> str | None:
        """The exit reasons of processes that should still run."""
        deaths = [death for death in self._gang.deaths() if death.code != 0]
        return "; ".join(death.words for death in deaths) + "." if deaths else None

    def end(self) -> None:
        """End all processes; at once if one is lost, because the others would wait for it in vain."""
        self._gang.end(were_told=self._were_told)


class ProcessLauncher:
    """Starts crews in processes; ``crew`` is the last one, for tests that disturb it."""

    def __init__(self, *, silence_seconds_max: float = SILENCE_SECONDS_MAX) -> None:
        self._silence_seconds_max = silence_seconds_max
        self.crew: ProcessCrew | None = None

    def launch(self, mission: Mission) -> ProcessCrew:
        """Start a process for each member; they have met when this returns."""
        gang = ProcessGang(
            mission.plan,
            mission.workers,
            run=partial(_be_member, mission),
            silence_seconds_max=self._silence_seconds_max,
            generation=mission.generation,
        )
        self.crew = ProcessCrew(gang, mission.workers)
        return self.crew


def _be_member(mission: Mission, mesh: Mesh, seat: Seat, sign: Sign | None) -> None:
    be_member(mission, mesh, seat.worker, sign)
