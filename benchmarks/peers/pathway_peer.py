"""A count by Pathway: epochs of some rows, each result seen before the next is sent, or one large one.

    PYTHON -m benchmarks.peers.pathway_peer ROWS EPOCHS KEYS

PYTHON is the interpreter of an environment that has ``pathway``; it is no dependency of this project. Rows of
several epochs are sent one by one through its connector for Python and each epoch is committed; one epoch
alone is read from a CSV file, which it does faster, and that is in its seconds. One worker. It prints one
JSON line, and the counts are checked.
"""

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pathway as pw  # type: ignore[import-not-found]
from benchmarks.tables.pathway_peer import Changes, Gate

SCHEMA = pw.schema_builder({"key": pw.column_definition(dtype=int)})


def main() -> None:
    """Measure."""
    rows, epochs, keys = map(int, sys.argv[1:4])
    drawn = np.random.default_rng(17).integers(0, keys, (epochs, rows))
    gate = Gate(1)
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        if epochs == 1:
            path = Path(folder, "rows.csv")
            np.savetxt(path, drawn[0], fmt="%d", header="key", comments="")
            table = pw.io.csv.read(str(path), schema=SCHEMA, mode="static")
        else:
            sent = [[{"key": int(key), "__diff__": 1} for key in each] for each in drawn]
            table = pw.io.python.read(Changes(sent, gate), schema=SCHEMA, autocommit_duration_ms=None)
        began, processor = perf_counter(), process_time()
        counts = counted(table, gate)
        whole, processor = perf_counter() - began, (process_time() - processor) / epochs
    wanted = np.bincount(drawn.ravel(), minlength=keys)
    if counts != {key: count for key, count in enumerate(wanted.tolist()) if count}:
        raise AssertionError("a count is wrong")
    taken = [sum(each) for each in zip(gate.sent, gate.waited, strict=True)]
    seconds = median(taken) if taken else whole
    print(json.dumps({"case": "count", "seconds": seconds, "processor_seconds": processor}), flush=True)


def counted(table: Any, gate: Gate) -> dict[int, int]:  # noqa: ANN401 - a table of Pathway
    """Run the count; the newest count of each key."""
    counts: dict[int, int] = {}

    def on_change(key: Any, row: Any, time: int, is_addition: bool) -> None:  # noqa: ANN401 - Pathway's
        if is_addition:
            counts[row["key"]] = row["count"]

    result = table.groupby(table.key).group_by(table.key).agg(count=pw.reducers.count())
    pw.io.subscribe(result, on_change, on_time_end=gate.told)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return counts


if __name__ == "__main__":
    main()
