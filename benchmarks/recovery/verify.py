"""What it costs to have a query judged while it runs: rows per second with ``verify`` by those without.

    .venv/bin/python -m benchmarks.recovery.verify [--turns 3] [--case count-large]

A running count by key and connected components, in two processes with a snapshot every second, over small
epochs (1,000 rows) and large ones (100,000 rows). Both ways go over the same epochs in turn, and the best
turn of each counts; the process of the judge is there before the clock starts. ``ratio`` is the speed with
``verify`` by the speed without, ``events_per_epoch`` what there was to judge, and ``us_per_event`` the time
of the whole verified run by its events. The outputs of both ways are compared.

The aim is a ratio above 0.8 for large epochs. Small ones have few rows to each event: there the judge, which
is one process for all workers, may well be what everybody waits for.
"""

import argparse
import select
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.figures import report

import pointstamp as ps
from pointstamp.check.online_process import JudgeProcess
from pointstamp.graphs import connected_components
from pointstamp.recovery.ledger import Committed
from pointstamp.recovery.policy import SnapshotPolicy
from pointstamp.recovery.processcrew import ProcessLauncher
from pointstamp.recovery.supervisor import QuerySpec, Supervisor
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.reading import read_published
from pointstamp.sources.memory import Rows
from pointstamp.storage.local import LocalStorage

WORKERS = 2
DISTINCT_MAX = 100
"""Afterwards the same epochs come again, so that they fit into memory."""


class Case(NamedTuple):
    """A flow and the size of its input."""

    flow: str
    rows: int
    epochs: int
    values: int


CASES = {
    "count-small": Case("count", 1_000, 400, 100_000),
    "count-large": Case("count", 100_000, 300, 100_000),
    "components-small": Case("components", 1_000, 100, 50_000),
    "components-large": Case("components", 100_000, 10, 1_000_000),
}


class Timed(Supervisor):
    """A supervisor that looks at the clock when its workers are ready, and after the last commit."""

    began = ended = 0.0

    def _on_ready(self) -> None:
        super()._on_ready()
        self.began = perf_counter()

    def _on_commit(self, commit: Committed) -> None:
        super()._on_commit(commit)
        self.ended = perf_counter()


def flow_of(case: Case) -> ps.Dataflow:
    """The flow of a case."""
    flow = ps.Dataflow(case.flow)
    edges = flow.input("rows", "a long, b long")
    out = (
        edges.count("a", running=True)
        if case.flow == "count"
        else connected_components(edges, src="a", dst="b")
    )
    flow.output("out", out)
    return flow


def run(case: Case, batches: tuple[pa.RecordBatch, ...], *, verify: bool) -> tuple[float, int, pa.Table]:
    """Seconds from the workers being ready to the last commit, events judged, and what was published."""
    flow = flow_of(case)
    judge = started_judge(flow) if verify else None
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        spec = QuerySpec(
            flow.plan,
            {"rows": Rows(batches)},
            ParquetSink(f"{folder}/out"),
            LocalStorage(Path(folder, "checkpoint")),
            WORKERS,
            "bench",
            SnapshotPolicy(epochs=None, seconds=1.0),
            judge=judge,
        )
        supervisor = Timed(spec, ProcessLauncher())
        supervisor.run()
        table = read_published(f"{folder}/out", "out")
    events = supervisor.recent[-1].get("verifiedEvents", 0)
    return (
        supervisor.ended - supervisor.began,
        events,
        table.sort_by([(name, "ascending") for name in table.column_names]),
    )


def started_judge(flow: ps.Dataflow) -> JudgeProcess:
    """A judge whose process is up."""
    judge = JudgeProcess(flow.plan)
    judge.begin(0, WORKERS, restored=-1, committed=-1)
    select.select([judge.fileno()], [], [], 60.0)
    judge.standing()
    return judge


def measure(name: str, turns: int) -> None:
    """One case, both ways in turn."""
    case = CASES[name]
    chance = np.random.default_rng(0)
    distinct = tuple(
        pa.record_batch({key: chance.integers(0, case.values, case.rows) for key in "ab"})
        for _ in range(min(case.epochs, DISTINCT_MAX))
    )
    batches = (distinct * case.epochs)[: case.epochs]
    plain: list[float] = []
    verified: list[float] = []
    events = 0
    for _ in range(turns):
        seconds, _, expected = run(case, batches, verify=False)
        plain.append(seconds)
        seconds, events, table = run(case, batches, verify=True)
        verified.append(seconds)
        assert table.equals(expected), "a judged run has published something else"
    rows = case.rows * case.epochs
    report(
        name,
        rows_per_second=rows / min(plain),
        verified_rows_per_second=rows / min(verified),
        ratio=min(plain) / min(verified),
        events_per_epoch=events / case.epochs,
        us_per_event=min(verified) / events * 1e6,
    )


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(description="What it costs to have a query judged while it runs.")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--case", choices=CASES)
    given = parser.parse_args()
    for name in [given.case] if given.case else CASES:
        measure(name, given.turns)


if __name__ == "__main__":
    main()
