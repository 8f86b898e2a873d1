"""Nexmark: events per second of each query, with one worker and with two processes.

    .venv/bin/python -m benchmarks.nexmark.throughput [--events 1000000] [--epochs 100] [--queries q3 q4]

One JSON line per query and contender. The events are made before the clock starts, as Arrow tables in memory,
and the workers are there; then each epoch is handed over when the result of the one before has been seen, and
the clock stops at the result of the last. ``seconds`` is the best of two turns, or the first if it took more
than half a minute, ``median_ms`` and ``worst_ms`` say how long its epochs took. ``events_per_s`` counts all
events, also those of inputs that a query does not read.

What a run emitted, added up, is compared with DuckDB's answer to all events at once. ``duckdb_seconds`` is
what DuckDB takes for that, once and from scratch, with all cores.
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
from benchmarks.figures import report
from benchmarks.nexmark.answers import added_up, all_rows, check, made_events
from examples.nexmark import queries
from examples.nexmark.events import Epochs
from examples.nexmark.flows import Query, flow_of, inputs_of

import pointstamp as ps

QUERIES = [f"q{number}" for number in range(23)]
TURN_SECONDS_MAX = 30.0

Opened = Callable[..., Any]
"""Opens a run of a flow."""

WHERE: dict[str, Callable[[ps.Dataflow], Opened]] = {
    "one worker": lambda flow: flow.open,
    "two processes": lambda flow: partial(flow.open, 2),
}


def turn(query: Query, inputs: Epochs, where: str) -> tuple[list[float], dict[int, pa.Table]]:
    """The seconds of each epoch, and its result."""
    flow, results = flow_of(query), dict[int, pa.Table]()
    epochs = len(next(iter(inputs.values())))

    def keep(name: str, epoch: int, table: pa.Table) -> None:
        del name
        results[epoch] = table

    seconds = []
    with WHERE[where](flow)(on_result=keep) as run:
        handles = {name: run.input(name) for name in inputs}
        for epoch in range(epochs):
            begin = perf_counter()
            for name, handle in handles.items():
                handle.send(inputs[name][epoch])
                handle.advance_to(epoch + 1)
            run.step_until(lambda e=epoch: run.is_done("result", e))
            seconds.append(perf_counter() - begin)
        run.settle()
    return seconds, results


def measure(name: str, inputs: Epochs, events: int, where: str) -> None:
    """One line."""
    query: Query = getattr(queries, name)
    needed = {each: inputs[each] for each in inputs_of(query)}
    seconds, results = turn(query, needed, where)
    if sum(seconds) < TURN_SECONDS_MAX:
        seconds = min(seconds, turn(query, needed, where)[0], key=sum)
    duckdb_seconds = check(name, all_rows(inputs, needed), added_up(results))
    report(
        name,
        contender=where,
        events=events,
        events_per_s=round(events / sum(seconds)),
        seconds=sum(seconds),
        median_ms=median(seconds) * 1e3,
        worst_ms=max(seconds) * 1e3,
        duckdb_seconds=duckdb_seconds,
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="Nexmark, events per second.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--queries", nargs="+", default=QUERIES)
    parser.add_argument("--where", nargs="+", choices=list(WHERE), default=list(WHERE))
    given = parser.parse_args()
    inputs = made_events(given.events, given.epochs)
    for name in given.queries:
        for where in given.where:
            measure(name, inputs, given.events, where)


if __name__ == "__main__":
    main()
