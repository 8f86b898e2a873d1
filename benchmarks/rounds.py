"""What coordination costs alone: empty epochs and empty loop rounds per second, in one process or several.

    .venv/bin/python benchmarks/rounds.py

One JSON line per case. An *epoch* case advances an input, waits until the output is done, and repeats: what a
user waits for at least. A *round* case is the barrier benchmark of Naiad and timely: an operator in a loop,
on every worker, asks to be notified of the next round each time that it is notified, so nobody begins a round
before everybody has ended the last. No rows move. ``us_each`` is the time for one.

To beat: 10,000 a second alone in this process, and 3,000 rounds a second with two processes on two cores.
More processes than cores measure the scheduler of the machine, too.
"""

import argparse
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.operator import operator
from pointstamp.driver.local_run import LocalRun
from pointstamp.driver.processes import ProcessRun
from pointstamp.operators.context import Context

Run = LocalRun | ProcessRun
Open = Callable[[Dataflow], AbstractContextManager[Run]]

PARTS = 5


class Barrier:
    """Asks for the next round whenever a round is complete, ``rounds`` times in each epoch."""

    outputs = "key long"

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def on_start(self, context: Context) -> None:
        """Ask for the first round of epoch 0."""
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Ask for the next round, and in the first one for the next epoch."""
        epoch, number = context.time
        if number == 0:
            context.notify_at((epoch + 1, 0))
        if number + 1 < self.rounds:
            context.notify_at((epoch, number + 1))


def empty_epochs() -> Dataflow:
    """An input and an output."""
    flow = Dataflow("epochs")
    flow.output("out", flow.stream_input("in", "key long"))
    return flow


def empty_rounds(rounds: int) -> Dataflow:
    """A loop in which nothing circulates but notifications."""
    flow = Dataflow("rounds")
    rows = flow.stream_input("in", "key long")
    with rows.loop("loop") as loop:
        variable = loop.variable("key long")
        circling = operator("barrier", Barrier(rounds), rows=loop.enter(rows).union(variable))
        loop.feedback(variable, circling)
        left = loop.leave(circling)
    flow.output("out", left)
    return flow


def per_second(open_run: Open, flow: Dataflow, epochs: int) -> list[float]:
    """Epochs per second, in several parts of one run, best last."""
    with open_run(flow) as run:
        handle = run.input("in")
        done = 0
        rates = []
        for part in range(PARTS + 1):
            started = perf_counter()
            for _ in range(epochs):
                done += 1
                handle.advance_to(done)
                run.step_until(partial(run.is_done, "out", done - 1))
            if part:  # the first one warms up
                rates.append(epochs / (perf_counter() - started))
    return sorted(rates)


def report(case: str, workers: str, rates: list[float], scale: int = 1) -> None:
    """Print one case."""
    best, middle = rates[-1] * scale, rates[len(rates) // 2] * scale
    figures = {
        "case": case,
        "workers": workers,
        "per_second": round(middle),
        "best_per_second": round(best),
        "us_each": round(1e6 / middle, 1),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(figures), flush=True)


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1_000)
    given = parser.parse_args()
    opened: dict[str, Open] = {"1 in this process": lambda flow: LocalRun(flow.plan)}
    for number in (1, 2, 4):
        opened[f"{number} processes"] = lambda flow, n=number: ProcessRun(flow.plan, n)  # type: ignore[misc]
    opened["2 processes, tcp"] = lambda flow: ProcessRun(flow.plan, 2, transport="tcp", encrypted=False)
    opened["2 processes, tcp encrypted"] = lambda flow: ProcessRun(flow.plan, 2, transport="tcp")
    for workers, open_run in opened.items():
        report("empty epochs", workers, per_second(open_run, empty_epochs(), given.epochs))
        rates = per_second(open_run, empty_rounds(given.rounds), 1)
        report("empty rounds", workers, rates, given.rounds)


if __name__ == "__main__":
    main()
