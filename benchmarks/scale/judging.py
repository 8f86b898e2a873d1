"""What ``verify=True`` costs with many workers: a run that is judged beside one that is not, in one process.

    .venv/bin/python -m benchmarks.scale.judging [--workers 4 16 64] [--epochs 3]

One JSON line per number of workers and broadcast: ``cpu_ms`` of an epoch without the judge, ``judged_cpu_ms``
with it, and ``times`` the second by the first. The outputs of both are compared.
"""

import argparse
from time import process_time
from typing import Any

from benchmarks.figures import report

from pointstamp import Dataflow
from pointstamp.progress.choosing import BroadcastKind


def run(workers: int, epochs: int, kind: BroadcastKind, *, verify: bool) -> tuple[float, list[Any]]:
    """The processor time of a run, and what it emitted."""
    flow = Dataflow("count", broadcast=kind)
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    rows = [[{"key": key} for key in range(workers)] for _ in range(epochs)]
    begin = process_time()
    results = flow.run(keys=rows, workers=workers, verify=verify)
    spent = process_time() - begin
    return spent, [sorted(map(str, table.to_pylist())) for table in results["counts"].values()]


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description="What the judge costs with many workers.")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--epochs", type=int, default=3)
    asked = parser.parse_args()
    kinds: tuple[BroadcastKind, ...] = ("direct", "accumulating")
    for workers in asked.workers:
        for kind in kinds:
            plain, expected = run(workers, asked.epochs, kind, verify=False)
            judged, found = run(workers, asked.epochs, kind, verify=True)
            assert found == expected, "the judged run emitted something else"
            report(
                f"verify, {workers} workers",
                broadcast=kind,
                cpu_ms=1e3 * plain / asked.epochs,
                judged_cpu_ms=1e3 * judged / asked.epochs,
                times=judged / plain,
            )


if __name__ == "__main__":
    main()
