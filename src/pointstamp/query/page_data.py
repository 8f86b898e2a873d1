"""Data of a query for the dashboard and for metrics, as pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from pointstamp.dashboard.prometheus import Sample
from pointstamp.dashboard.sight import Json
from pointstamp.driver.messages import Load, Ready
from pointstamp.driver.status import RunStatus
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.order.antichain import Antichain
from pointstamp.progress.tracker import Tracker
from pointstamp.state.memory_budget import KeptRows, KeyRows
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target

_TIMES_MAX: Final = 3
_KEYS_MAX: Final = 5


def outputs_now(status: RunStatus) -> Json:
    """The ends of the flow, and its loops, as ``query.progress()`` has them."""
    return {
        "inputs": [
            {"name": each.name, "rows": each.rows, "late": each.rows_late, "frontier": _times(each.frontier)}
            for each in status.inputs
        ],
        "outputs": [
            {
                "name": each.name,
                "rows": each.rows,
                "frontier": _times(each.frontier),
            }
            for each in status.outputs
        ],
        "loops": [
            {
                "scope": list(each.scope),
                "epoch": each.epoch,
                "first": each.first_round,
                "last": each.last_round,
                "messages": each.messages,
            }
            for each in status.loops
        ],
        "complete": status.is_complete,
    }


class Looked(NamedTuple):
    """The ports of an operator: its inputs (for an input of the flow, its output), and its outputs."""

    operator: OperatorIndex
    is_input: bool
    ports: tuple[Location, ...]
    outputs: tuple[Location, ...]


def looked_at(plan: Plan, graph: OperatorGraph) -> list[Looked]:
    """All operators; it is the same for one plan, so it is made once."""
    return [
        Looked(
            node.index,
            node.kind is NodeKind.INPUT,
            tuple(graph.location(port) for port in _ports(node)),
            tuple(graph.location(SourcePort(node.index, each)) for each in range(len(node.outputs)))
            if node.kind is NodeKind.OPERATOR
            else (),
        )
        for node in plan.nodes
        if not node.kind.is_door
    ]


# What two reports of a worker's load say about the time between them: rows a second, and busy shares.


@dataclass(frozen=True, slots=True)
class OperatorRate:
    """One operator on one worker: what waits there, rows a second in and out, and its share of the time."""

    batches_waiting: int
    rows_waiting: int
    rows_in: float
    rows_out: float
    busy: float


@dataclass(slots=True)
class WorkerRates:
    """The load of one worker, from its last two reports; changed when they arrive."""

    last: Load
    busy: float = 0.0
    """The share of a core that its process has used."""
    operators: dict[int, OperatorRate] = field(default_factory=dict)

    @classmethod
    def first(cls, load: Load) -> "WorkerRates":
        """The figures after one report: waiting rows, without rates."""
        waiting = {
            each.operator: OperatorRate(each.batches_waiting, each.rows_waiting, 0.0, 0.0, 0.0)
            for each in load.operators
        }
        return cls(load, operators=waiting)

    def then(self, load: Load) -> "WorkerRates":
        """The figures after another report; one of another process, or a repeated one, changes nothing."""
        before = self.last
        seconds, looks = load.seconds - before.seconds, load.looks - before.looks
        if seconds == 0:
            return self
        if seconds < 0 or looks < 0 or load.processor_seconds < before.processor_seconds:
            return WorkerRates.first(load)
        rates = {}
        for old, new in zip(before.operators, load.operators, strict=True):
            rates[new.operator] = OperatorRate(
                new.batches_waiting,
                new.rows_waiting,
                max(0, new.rows_in - old.rows_in) / seconds,
                max(0, new.rows_out - old.rows_out) / seconds,
                min(1.0, (new.seen - old.seen) / looks) if looks else 0.0,
            )
        busy = (load.processor_seconds - before.processor_seconds) / seconds
        return WorkerRates(load, min(busy, 99.0), rates)


def operators_now(
    looked: Sequence[Looked], tracker: Tracker, workers: Mapping[int, WorkerRates], opened: int
) -> Json:
    """Each operator by its number: its frontier, what waits, how fast and how busy it is, who holds others.

    Busy is the share of the busiest worker: one that is always inside of an operator is what others wait for.
    An operator ``holds`` if something is counted there at the oldest epoch in flight.
    """
    counted = [tracker.occurrences(Location(number)) for number in range(len(tracker.graph.ports))]
    oldest = min((time[0] for times in counted for time, count in times.items() if count > 0), default=None)
    is_open = oldest is not None and oldest <= opened
    found: Json = {}
    for index, is_input, ports, outputs in looked:
        rates = [each.operators[index] for each in workers.values() if index in each.operators]
        found[str(index)] = {
            "frontier": _times(_earliest(tracker, ports)),
            "batches": 0 if is_input else sum(max(0, n) for at in ports for n in counted[at].values()),
            "waiting": sum(each.rows_waiting for each in rates),
            "in": sum(each.rows_in for each in rates),
            "out": sum(each.rows_out for each in rates),
            "busy": max((each.busy for each in rates), default=0.0),
            "holds": is_open
            and any(
                time[0] == oldest and count > 0
                for at in (*ports, *outputs)
                for time, count in counted[at].items()
            ),
        }
    return found


def workers_now(workers: Mapping[int, WorkerRates], members: Mapping[int, Ready]) -> list[Json]:
    """Each worker with its operators that have something to say."""
    shown = []
    for number, rates in sorted(workers.items()):
        where = members.get(number)
        shown.append(
            {
                "worker": number,
                "host": "" if where is None else where.host,
                "pid": 0 if where is None else where.pid,
                "memory": rates.last.memory_bytes,
                "busy": rates.busy,
                "operators": {
                    str(index): [each.rows_waiting, each.rows_in, each.rows_out, each.busy]
                    for index, each in rates.operators.items()
                    if each.rows_waiting or each.rows_in or each.rows_out or each.busy
                },
            }
        )
    return shown


def kept_now(
    plan: Plan,
    kept: Sequence[Mapping[str, KeptRows]],
    largest: Mapping[int, Mapping[str, Sequence[KeyRows]]],
) -> list[Json]:
    """The state of operators, in total and by worker, from ``kept`` and the keys of ``largest``."""
    names = {node.name: node.index for node in plan.nodes if not node.kind.is_door}
    found: dict[str, Json] = {}
    for number, mine in enumerate(kept):
        for name, (rows, size, spilled) in mine.items():
            owner, _, what = name.rpartition(": ")
            operator = names.get(owner)
            nothing: Json = {
                "operator": operator,
                "name": owner,
                "what": what,
                "rows": 0,
                "bytes": 0,
                "spilled": 0,
                "by": {},
                "keys": _largest(largest, name),
            }
            one = found.setdefault(name, nothing)
            one["rows"] += rows
            one["bytes"] += size
            one["spilled"] += spilled
            one["by"][str(number)] = [rows, size]
    return list(found.values())


def _largest(largest: Mapping[int, Mapping[str, Sequence[KeyRows]]], name: str) -> list[Json]:
    """The largest keys of all workers; a key that several have is counted on each by itself."""
    found = [(each, worker) for worker, mine in largest.items() for each in mine.get(name, ())]
    found.sort(key=lambda pair: -pair[0].rows)
    return [{"key": each.key, "rows": each.rows, "worker": worker} for each, worker in found[:_KEYS_MAX]]


def query_samples(
    *,
    is_active: bool,
    published: int,
    generation: int,
    restarts: int,
    status: RunStatus | None,
    workers: Mapping[int, WorkerRates],
    age: float,
) -> Iterator[Sample]:
    """Every number of a query for machines."""
    yield "pointstamp_up", {}, int(is_active)
    yield "pointstamp_epoch_published", {}, published
    yield "pointstamp_generation", {}, generation
    yield "pointstamp_restarts_total", {}, restarts
    if status is None:
        return
    yield "pointstamp_age_seconds", {}, round(age, 3)
    for put in status.inputs:
        yield "pointstamp_rows_in_total", {"input": put.name}, put.rows
        yield "pointstamp_rows_late_total", {"input": put.name}, put.rows_late
        if put.frontier:
            yield "pointstamp_input_epoch", {"input": put.name}, min(time[0] for time in put.frontier)
    for out in status.outputs:
        yield "pointstamp_rows_out_total", {"output": out.name}, out.rows
        if out.epochs_complete is not None:
            yield "pointstamp_output_epoch", {"output": out.name}, out.epochs_complete
    for scope, loops in groupby(status.loops, key=lambda loop: loop.scope):
        # One series for each loop: an epoch as a label would make new ones forever.
        epochs = list(loops)
        where = {"loop": "/".join(scope)}
        yield "pointstamp_loop_epochs", where, len(epochs)
        yield "pointstamp_loop_round", where, max(each.last_round for each in epochs)
        yield "pointstamp_loop_messages", where, sum(each.messages for each in epochs)
    for kept in status.kept:
        owner, _, what = kept.name.rpartition(": ")
        yield "pointstamp_kept_rows", {"operator": owner, "what": what}, kept.rows
        yield "pointstamp_kept_bytes", {"operator": owner, "what": what}, kept.size_bytes
        yield "pointstamp_spilled_bytes", {"operator": owner, "what": what}, kept.spilled_bytes
    for number, rates in sorted(workers.items()):
        yield "pointstamp_worker_memory_bytes", {"worker": str(number)}, rates.last.memory_bytes


def _ports(node: Node) -> list[SourcePort | Target]:
    """The ports of an operator: its inputs, or the output of an input of the flow."""
    if node.kind is NodeKind.INPUT:
        return [SourcePort(node.index, 0)]
    return [Target(node.index, port) for port in range(len(node.inputs))]


def _earliest(tracker: Tracker, ports: Sequence[Location]) -> Sequence[Time]:
    """The first times that may still come to one of these ports, in the order of sorting."""
    if len(ports) == 1 and len(tracker.frontier(ports[0])) < 2:
        return tracker.frontier(ports[0])
    if not ports:
        return []
    domain = tracker.graph.domains[ports[0]]
    times = Antichain.of(domain, (time for at in ports for time in tracker.frontier(at)))
    return sorted(times, key=domain.sort_key)


def _times(times: Any) -> list[list[Any]]:  # noqa: ANN401 - times of any kind
    return [list(time) for time in times[:_TIMES_MAX]]
