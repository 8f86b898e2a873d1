"""What it costs to have a query judged while it runs: rows per second with ``verify`` by those without.

    .venv/bin/python -m benchmarks.recovery.verify [--turns 3] [--case count-large]

A running count by key and connected components, in two processes with a snapshot every second, over small
epochs (1,000 rows) and large ones (100,000 rows). Both ways go over the same epochs in turn, and the best
turn of each counts; the process of the judge is there before the clock starts. ``ratio`` is the speed with
``verify`` by the speed without; ``cpu_ratio`` is the same for the time of all processors, without the start
of the judge, which says more where others use the machine, too. ``events_per_epoch`` is what there was to
judge, and ``cpu_us_per_event`` what telling and judging an event took. The outputs of both are compared.

The aim is a ratio of at least 0.8. Small epochs, which have few rows to each event, are the hard ones: the
judge is one process for all workers, and may be what everybody waits for.
"""

import argparse
import select
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.figures import report

import pointstamp as ps
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.graphs import connected_components
from pointstamp.journal.history import Committed
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from pointstamp.verify.verifier import JudgeProcess

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


class Ran(NamedTuple):
    """Seconds by the clock and of all processors, events judged, and what was published."""

    seconds: float
    cpu_seconds: float
    events: int
    table: pa.Table


def cpu_seconds() -> float:
    """What this process and all that it has ended have used."""
    own, ended = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def flow_of(case: Case) -> ps.Dataflow:
    """The flow of a case."""
    flow = ps.Dataflow(case.flow)
    edges = flow.stream_input("rows", "a long, b long")
    out = (
        edges.group_by("a", running=True).count()
        if case.flow == "count"
        else connected_components(edges, src="a", dst="b")
    )
    flow.output("out", out)
    return flow


def run(case: Case, batches: tuple[pa.RecordBatch, ...], *, verify: bool) -> Ran:
    """Run a case from the workers being ready to the last commit; processors are counted from the start."""
    before = cpu_seconds()
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
            SnapshotPolicy(seconds=1.0),
            judge=judge,
        )
        supervisor = Timed(spec, ProcessLauncher())
        supervisor.run()
        used = cpu_seconds() - before
        table = read_changes(f"{folder}/out", "out")
    events = supervisor.recent[-1].get("verifiedEvents", 0)
    in_order = table.sort_by([(name, "ascending") for name in table.column_names])
    return Ran(supervisor.ended - supervisor.began, used, events, in_order)


def started_judge(flow: ps.Dataflow) -> JudgeProcess:
    """A judge whose process is up."""
    judge = JudgeProcess(flow.plan)
    judge.begin(0, WORKERS, restored=-1, committed=-1)
    select.select([judge.fileno()], [], [], 60.0)
    judge.standing()
    return judge


def judge_cpu_seconds(flow: ps.Dataflow) -> float:
    """What it takes to start a judge and to end it."""
    before = cpu_seconds()
    started_judge(flow).close()
    return cpu_seconds() - before


def measure(name: str, turns: int) -> None:
    """One case, both ways in turn."""
    case = CASES[name]
    chance = np.random.default_rng(0)
    distinct = tuple(
        pa.record_batch({key: chance.integers(0, case.values, case.rows) for key in "ab"})
        for _ in range(min(case.epochs, DISTINCT_MAX))
    )
    batches = (distinct * case.epochs)[: case.epochs]
    plain: list[Ran] = []
    verified: list[Ran] = []
    for _ in range(turns):
        plain.append(run(case, batches, verify=False))
        verified.append(run(case, batches, verify=True))
        assert verified[-1].table.equals(plain[-1].table), "a judged run has published something else"
    rows, events = case.rows * case.epochs, verified[-1].events
    seconds, judged_seconds = (min(ran.seconds for ran in each) for each in (plain, verified))
    cpu, judged_cpu = (min(ran.cpu_seconds for ran in each) for each in (plain, verified))
    judged_cpu -= judge_cpu_seconds(flow_of(case))
    report(
        name,
        rows_per_second=rows / seconds,
        verified_rows_per_second=rows / judged_seconds,
        ratio=seconds / judged_seconds,
        cpu_ratio=cpu / judged_cpu,
        events_per_epoch=events / case.epochs,
        cpu_us_per_event=(judged_cpu - cpu) / events * 1e6,
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
