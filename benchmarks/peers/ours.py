"""One row of the table of peers by this project, in a process of its own; ``table`` starts it.

    .venv/bin/python -m benchmarks.peers.ours CASE [--size NAME=NUMBER ...] [--tree FOLDER]

The measuring is that of the other benchmarks, which this calls. It prints one JSON line for each figure:
``seconds`` for one, the median, and where one worker does it alone ``processor_seconds``. Each answer is
checked. With ``--tree`` it ends with an error unless ``pointstamp`` comes from that folder.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.components import measure_incremental
from benchmarks.epochs import counted
from benchmarks.exchange import KEY, PROCESSES, exchange
from benchmarks.rounds import empty_epochs, empty_rounds, per_second
from benchmarks.small_epochs import advancing, counting, sending, spent_on_one
from benchmarks.tables.cases import CASES, text_keys
from benchmarks.tables.updates import measured

import pointstamp
from pointstamp.driver.processes import ProcessRun

Sizes = dict[str, int]
Figure = tuple[str, float, float | None]
"""What was measured, its seconds by the clock, and its seconds of the processor where they are known."""


def count(sizes: Sizes, processes: int) -> Iterator[Figure]:
    """A running count of epochs by key; a large one is repeated with a new flow each time."""
    drawn = np.random.default_rng(17).integers(0, sizes["keys"], (sizes["epochs"], sizes["rows"]))
    batches = [pa.record_batch({"key": each}) for each in drawn]
    wanted = np.bincount(drawn.ravel(), minlength=sizes["keys"])
    taken = []
    for _ in range(sizes["repeated"]):
        counts, seconds = counted(batches, processes)
        taken += seconds
        found = np.zeros_like(wanted)
        found[list(counts)] = list(counts.values())
        if not np.array_equal(found, wanted):
            raise AssertionError("a count is wrong")
    yield "count", float(np.median(taken)), None


def one_row(sizes: Sizes) -> Iterator[Figure]:
    """Epochs of one row, counted, each result seen before the next is sent."""
    one = pa.record_batch({"key": pa.array([1], pa.int64())})
    yield "one row", *spent_on_one(sending(counting(), one), sizes["epochs"])


def epochs(sizes: Sizes, processes: int) -> Iterator[Figure]:
    """Epochs without rows."""
    if not processes:
        yield "empty epochs", *spent_on_one(advancing(empty_epochs()), sizes["epochs"])
        return
    rates = per_second(lambda flow: ProcessRun(flow.plan, processes), empty_epochs(), sizes["epochs"])
    yield "empty epochs", 1 / float(np.median(rates)), None


def rounds(sizes: Sizes, processes: int) -> Iterator[Figure]:
    """Rounds of a loop without rows."""
    number = sizes["rounds"]
    flow = empty_rounds(number)
    if not processes:
        clock, processor = spent_on_one(advancing(flow), 1)
        yield "empty rounds", clock / number, processor / number
        return
    rates = per_second(lambda flow: ProcessRun(flow.plan, processes), flow, 1)
    yield "empty rounds", 1 / float(np.median(rates)) / number, None


def exchanged(sizes: Sizes) -> Iterator[Figure]:
    """Rows of 8 bytes between two processes."""
    seconds = exchange(KEY, sizes["rows"], sizes["batches"], "ipc", encrypted=False)
    yield "exchange", seconds / (sizes["rows"] * sizes["batches"] * PROCESSES), None


def components(sizes: Sizes) -> Iterator[Figure]:
    """Connected components: the load, and then epochs of more edges."""
    figures = measure_incremental(sizes["vertices"])
    for name, of, unit in (("load", "load_s", 1.0), ("more", "ms_median", 1e-3)):
        value = figures[of]
        assert isinstance(value, float)
        yield f"components {name}", value * unit, None


def inserts(sizes: Sizes, *, has_text_keys: bool) -> Iterator[Figure]:
    """Rows into a running count that has each key once."""
    shape = (sizes["epochs"], sizes["change"])
    drawn = [np.arange(sizes["rows"]), *np.random.default_rng(17).integers(0, sizes["rows"], shape)]
    keys = [text_keys(each) if has_text_keys else pa.array(each) for each in drawn]
    batches = [pa.record_batch({"key": each}) for each in keys]
    counts, seconds = counted(batches, 0, "string" if has_text_keys else "long")
    if [counts[key] for key in keys[0].to_pylist()] != np.bincount(np.concatenate(drawn)).tolist():
        raise AssertionError("a count is wrong")
    yield "inserts", float(np.median(seconds[1:])), None


def changes(sizes: Sizes, query: str) -> Iterator[Figure]:
    """Changes of a table that is added up by key."""
    (case,) = (each for each in CASES if each.name == query)
    figures = measured(case, sizes["rows"], sizes["epochs"])
    yield query, figures["median_ms"] / 1e3, figures["cpu_ms"] / 1e3


OURS: Final[dict[str, Callable[[Sizes], Iterator[Figure]]]] = {
    "count": partial(count, processes=0),
    "count, 2 processes": partial(count, processes=2),
    "one row": one_row,
    "empty epochs": partial(epochs, processes=0),
    "empty epochs, 2 processes": partial(epochs, processes=2),
    "empty rounds": partial(rounds, processes=0),
    "empty rounds, 2 processes": partial(rounds, processes=2),
    "exchange": exchanged,
    "components": components,
    "inserts-integers": partial(inserts, has_text_keys=False),
    "inserts-strings": partial(inserts, has_text_keys=True),
    "changes-integers": partial(changes, query="sum by key"),
    "changes-strings": partial(changes, query="sum by text"),
}


def size_of(text: str) -> tuple[str, int]:
    """An argument such as ``rows=1000``."""
    name, _, number = text.partition("=")
    return name, int(number)


def main() -> None:
    """Measure the case that is asked for."""
    asked = argparse.ArgumentParser(description="One row of the table of peers, by this project.")
    asked.add_argument("case", choices=OURS)
    asked.add_argument("--size", nargs="*", type=size_of, default=[])
    asked.add_argument("--tree", type=Path)
    given = asked.parse_args()
    found = Path(pointstamp.__file__).resolve()
    if given.tree is not None and not found.is_relative_to(given.tree.resolve()):
        sys.exit(
            f"the tree {given.tree} was to be measured, but pointstamp was imported from {found.parent}."
        )
    for name, seconds, processor in OURS[given.case](dict(given.size)):
        print(json.dumps({"case": name, "seconds": seconds, "processor_seconds": processor}), flush=True)


if __name__ == "__main__":
    main()
