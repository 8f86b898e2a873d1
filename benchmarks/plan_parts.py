"""What is saved where sums and first rows begin at each worker: the rule on and off, for few and many keys.

    .venv/bin/python -m benchmarks.plan_parts [--rows 1000000] [--workers 2] [--rounds 3]

One JSON line for each case: CPU seconds of all processes for one run with one worker in each process, with
the rule and without it, the least of some rounds; and their ratio. The results are compared.
"""

import argparse
import json
import resource
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.dataflow import record
from pointstamp.plan.optimizer import RULES
from pointstamp.plan.rules.aggregate_in_parts import aggregate_in_parts

COLUMNS: Final = "few long, many long, v long, f double"
EPOCHS: Final = 4


def _sums(rows: ps.Table, *keys: str) -> ps.Table:
    asked = {"n": ps.count(), "sum": ps.sum("v")}
    return rows.group_by(*keys).agg(asked) if keys else rows.agg(asked)


CASES: Final[dict[str, Callable[[ps.Table], ps.Table]]] = {
    "sums of 10 keys": lambda rows: _sums(rows, "few"),
    "sums of 100,000 keys": lambda rows: _sums(rows, "many"),
    "sums of all rows": _sums,
    "sums of floats, 10 keys": lambda rows: rows.group_by("few").agg(f=ps.sum("f")),
    "first 3 rows of 10 keys": lambda rows: rows.select("few", "v").top(3, "few", by="v desc"),
}


def epochs_of(rows: int) -> list[pa.Table]:
    """Return random rows in epochs."""
    random = np.random.default_rng(1)
    made = []
    for _ in range(EPOCHS):
        count = rows // EPOCHS
        columns = [
            random.integers(0, 10, count),
            random.integers(0, 100_000, count),
            random.integers(0, 1_000_000, count),
            random.random(count),
        ]
        made.append(pa.table(columns, ["few", "many", "v", "f"]))
    return made


def measured(
    case: Callable[[ps.Table], ps.Table], rows: list[pa.Table], workers: int, *, is_on: bool
) -> tuple[float, list[str]]:
    """Return the CPU seconds of a run in processes of its own, and what the last epoch leaves."""
    flow = ps.Dataflow("parts")
    flow.output("result", case(flow.table("rows", COLUMNS)))
    rules = [each for each in RULES if is_on or each is not aggregate_in_parts]
    with nullcontext() if is_on else patch.object(record, "RULES", rules):
        assert any("in parts" in node.name for node in flow.plan.nodes) == is_on
    before = _seconds()
    results = flow.run(rows=rows, processes=workers)["result"]
    seconds = _seconds() - before
    return seconds, sorted(repr(row) for _, table in sorted(results.items()) for row in table.to_pylist())


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Run all cases with the rule and without it."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, default=1_000_000)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--rounds", type=int, default=3)
    given = asked.parse_args()
    rows = epochs_of(given.rows)
    nothing, _ = measured(CASES["sums of all rows"], [each.slice(0, 1) for each in rows], 2, is_on=True)
    for name, case in CASES.items():
        found: dict[bool, float] = {}
        results: list[list[str]] = []
        for _ in range(given.rounds):
            for is_on in (False, True):
                seconds, result = measured(case, rows, given.workers, is_on=is_on)
                found[is_on] = min(found.get(is_on, seconds), seconds)
                results.append(result)
        assert all(each == results[0] for each in results), f"{name}: other results"
        on, off = (found[is_on] - nothing for is_on in (True, False))
        figures: dict[str, Any] = {"case": name, "rows": given.rows, "workers": given.workers}
        figures |= {"processes_s": round(nothing, 2), "off_s": round(off, 2), "on_s": round(on, 2)}
        print(json.dumps({**figures, "ratio": round(off / on, 2)}), flush=True)


if __name__ == "__main__":
    main()
