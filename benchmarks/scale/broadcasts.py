"""What progress costs with many workers: messages, bytes and trips of an epoch, with both broadcasts.

    .venv/bin/python -m benchmarks.scale.broadcasts [--workers 64 256 1000] [--flow count loop components]

One JSON line per flow, number of workers and broadcast, for one epoch after the first. The workers are real
and all in this process (``benchmarks.scale.synchronous``). ``progress_messages`` and ``progress_bytes`` are
those of the whole cluster, ``most_received`` what the busiest worker receives, ``trips`` how many messages
follow one another until nothing moves. ``mirrored`` says that one tracker stood for all, which the direct
broadcast allows; at 64 workers both ways are run, and must agree in messages within a tenth. Then the time
that one worker needs for a progress update when all others send: ``us_each`` is processor time.

Each worker is given ``--rows`` rows an epoch (1: what is measured is progress, and not rows).
"""

import argparse
from collections.abc import Mapping
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.figures import report
from benchmarks.scale.synchronous import SynchronousWorld, Traffic

from pointstamp import Dataflow, count
from pointstamp.dataflow.operator import operator
from pointstamp.graphs import connected_components
from pointstamp.operators.context import Context
from pointstamp.progress.accumulating import TOP
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.choosing import BroadcastKind, broadcast_tree
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.view import ProgressView
from pointstamp.topology.ports import Location, SourcePort

ROUNDS: Final = 20
REAL_DIRECT_MAX: Final = 64
"""With more workers than this the direct broadcast is mirrored."""

SCHEMA: Final = pa.schema([("src", pa.int64()), ("dst", pa.int64())])


class Barrier:
    """Asks for the next round whenever a round is complete, on every worker, ROUNDS times in each epoch."""

    outputs = "src long, dst long"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Begin with the first round."""
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Continue to the next."""
        epoch, number = context.time
        if number + 1 < ROUNDS:
            context.notify_at((epoch, number + 1))


def count_flow() -> Dataflow:
    """Rows are brought together by key, and counted."""
    flow = Dataflow("count")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("out", rows.group_by("src").agg(n=count()))
    return flow


def loop_flow() -> Dataflow:
    """A barrier in a loop."""
    flow = Dataflow("loop")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("loop") as loop:
        variable = loop.variable(SCHEMA)
        circling = operator("barrier", Barrier(), rows=loop.enter(rows).union(variable))
        loop.feedback(variable, circling)
        flow.output("out", loop.leave(circling))
    return flow


def components_flow() -> Dataflow:
    """Connected components, as pointstamp.graphs has them."""
    flow = Dataflow("components")
    flow.output("out", connected_components(flow.stream_input("rows", SCHEMA)))
    return flow


UPDATE_EPOCHS: Final = 20
_GRAPH: Final = count_flow().plan.graph()

FLOWS: Final = {"count": count_flow, "loop": loop_flow, "components": components_flow}


def batches(workers: int, rows: int, epoch: int) -> list[pa.RecordBatch]:
    """Rows for each worker: edges of a random graph with half as many vertices as edges."""
    drawn = np.random.default_rng(epoch).integers(0, max(2, workers * rows // 2), (workers, 2, rows))
    return [pa.record_batch(list(each), schema=SCHEMA) for each in drawn]


def epoch_of(
    flow: str, workers: int, kind: BroadcastKind, rows: int, *, mirrored: bool
) -> tuple[Traffic, float]:
    """The traffic of the second epoch, and the processor time of all workers."""
    made = FLOWS[flow]()
    made.plan.broadcast = kind
    world = SynchronousWorld(made.plan, workers, mirrored=mirrored)
    world.run()
    world.feed("rows", 0, batches(workers, rows, 0))
    world.run()
    world.feed("rows", 1, batches(workers, rows, 1))
    begin = process_time()
    traffic = world.run()
    return traffic, process_time() - begin


def measure(flow: str, workers: int, rows: int) -> None:
    """One line for each broadcast."""
    cases: list[tuple[BroadcastKind, bool]] = [("accumulating", False)]
    if workers <= REAL_DIRECT_MAX:
        cases.append(("direct", False))
    cases.append(("direct", True))
    found: dict[tuple[str, bool], Traffic] = {}
    for kind, mirrored in cases:
        traffic, seconds = epoch_of(flow, workers, kind, rows, mirrored=mirrored)
        found[kind, mirrored] = traffic
        report(
            f"{flow}, {workers} workers",
            broadcast=kind,
            mirrored=mirrored,
            progress_messages=traffic.progress_messages,
            progress_bytes=traffic.progress_bytes,
            data_messages=traffic.data_messages,
            trips=traffic.trips,
            most_received=traffic.most_received,
            cpu_seconds=seconds,
        )
    if ("direct", False) in found:
        real, mirror = found["direct", False].progress_messages, found["direct", True].progress_messages
        assert abs(real - mirror) <= real / 10, f"the mirror counts {mirror} messages, and there are {real}"


def update_times(senders: int) -> None:
    """What one worker needs for an epoch's progress of many others, with each broadcast."""
    tree = broadcast_tree("accumulating", senders + 1)
    assert tree is not None
    everybody = dict.fromkeys(map(WorkerIndex, range(senders)), 1)
    below_top = {peer: len(tree.members(peer)) or 1 for peer in tree.below_top()}
    last = WorkerIndex(senders)
    update_time("direct, a worker", ProgressView(_GRAPH, last, senders + 1), everybody)
    update_time("accumulating, the top", ProgressView(_GRAPH, TOP, senders + 1, tree=tree), below_top)
    above = {tree.roots[senders]: senders + 1}
    update_time("accumulating, a worker", ProgressView(_GRAPH, last, senders + 1, tree=tree), above)


def update_time(place: str, view: ProgressView, weights: Mapping[WorkerIndex, int]) -> None:
    """Let each of these tell, epoch by epoch, that the input of all whom it speaks for has advanced."""
    at = Location(next(number for number, port in enumerate(_GRAPH.ports) if isinstance(port, SourcePort)))
    workers = view.tracker.count(at, (0,))
    begin = process_time()
    for epoch in range(UPDATE_EPOCHS):
        now, then = (epoch,), (epoch + 1,)
        for sender, weight in weights.items():
            view.receive(ProgressBatch(sender, epoch, (Change(at, now, -weight), Change(at, then, weight))))
        if sum(weights.values()) < workers:
            view.record((Change(at, now, -1), Change(at, then, 1)))
        for peer, batch in view.flush():
            if peer == view.worker:
                view.receive(batch)
        view.propagate()
    spent = process_time() - begin
    frontier = [*view.tracker.frontier(at)]
    assert frontier == [(UPDATE_EPOCHS,)], f"{place} has come to {frontier}"
    report(
        f"an epoch of progress at one worker: {place}",
        updates_an_epoch=len(weights),
        us_each=1e6 * spent / UPDATE_EPOCHS / len(weights),
        ms_an_epoch=1e3 * spent / UPDATE_EPOCHS,
    )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[64, 256, 1_000])
    parser.add_argument("--flow", nargs="+", choices=FLOWS, default=list(FLOWS))
    parser.add_argument("--rows", type=int, default=1)
    asked = parser.parse_args()
    for workers in asked.workers:
        for flow in asked.flow:
            measure(flow, workers, asked.rows)
    update_times(max(asked.workers))


if __name__ == "__main__":
    main()
