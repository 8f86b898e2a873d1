"""How long it takes to build a flow of many operators, by stage.

    .venv/bin/python -m benchmarks.plan_build [--operators 1000 2000]

One JSON line for each shape and size. CPU seconds: ``written_s`` is writing the flow, with a check of every
operator; ``structured_s``, ``optimized_s``, ``lowered_s`` and ``identified_s`` are what the plan that runs
takes from there; ``total_s`` is their sum.

- views: one input, joins, aggregates, first rows and unions in views of ten operators;
- filters, columns, aggregates: a chain of one kind of step;
- joins: a chain of joins, each with an input of its own.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import pointstamp as ps
from pointstamp.dataflow import record

ROWS: Final = "id long, city string, price long, amount long"


def views(count: int) -> ps.Dataflow:
    """Return a flow with views over one input."""
    flow = ps.Dataflow("views")
    orders, cities = flow.table("orders", ROWS), flow.table("cities", "city string, country string")
    for number in range(count // 12):
        large = orders.filter(ps.col("price") > number).with_columns(total=ps.col("price") * ps.col("amount"))
        countries = large.join(cities, "city").group_by("country")
        sums = countries.agg(total=ps.sum("total"), most=ps.max("price")).filter(ps.col("total") > number)
        placed = sums.select("country", "total").with_columns(x=ps.col("total") + number)
        best = placed.top(5, by="x desc").union(sums.select("country", "total", x=ps.col("total"))).distinct()
        flow.output(f"view_{number}", best)
    return flow


def _chain(step: Callable[[ps.Table, int], ps.Table], count: int) -> ps.Dataflow:
    flow = ps.Dataflow("chain")
    rows = flow.table("orders", ROWS)
    for number in range(count):
        rows = step(rows, number)
    flow.output("rows", rows)
    return flow


def filters(count: int) -> ps.Dataflow:
    """Return a chain of conditions."""
    return _chain(lambda rows, number: rows.filter(ps.col("price") > number), count)


def columns(count: int) -> ps.Dataflow:
    """Return a chain of projections."""
    return _chain(lambda rows, _: rows.with_columns(amount=ps.col("amount") + 1), count)


def aggregates(count: int) -> ps.Dataflow:
    """Return a chain of aggregates, each with a condition on its result."""

    def step(rows: ps.Table, number: int) -> ps.Table:
        sums = rows.group_by("id", "city").agg(price=ps.sum("price"))
        return sums.filter(ps.col("price") > number)

    return _chain(step, count // 2)


def joins(count: int) -> ps.Dataflow:
    """Return a chain of joins."""
    flow = ps.Dataflow("joins")
    rows = flow.table("orders", ROWS)
    for number in range(count // 4):
        cities = flow.table(f"cities_{number}", f"city string, x_{number} long")
        rows = rows.join(cities, "city").select("id", "city", "price")
    flow.output("rows", rows)
    return flow


SHAPES: Final = (views, filters, columns, aggregates, joins)


def measured(shape: Callable[[int], ps.Dataflow], count: int) -> dict[str, Any]:
    """Return the figures of building one flow."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        before = time.process_time()
        yield
        seconds[stage] = seconds.get(stage, 0) + time.process_time() - before

    def watched(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: object, **named: object) -> object:
            with timed(stage):
                return function(*given, **named)

        return call

    with timed("written_s"):
        flow = shape(count)
    own = flow._record  # noqa: SLF001 - what was written is counted
    stages = {"structured": "structured_s", "optimize": "optimized_s", "identify": "identified_s"}
    watching: dict[str, Any] = {n: watched(stage, getattr(record, n)) for n, stage in stages.items()}
    with (
        timed("plan"),
        patch.multiple(
            "pointstamp.dataflow.record",
            **watching,
        ),
    ):
        nodes = len(flow.plan.nodes)
    rest = seconds.pop("plan") - sum(seconds[stage] for stage in stages.values())
    figures = {"shape": shape.__name__, "written": len(own.written), "physical": nodes}
    return {
        **figures,
        **{stage: round(found, 3) for stage, found in seconds.items()},
        "lowered_s": round(rest, 3),
        "total_s": round(sum(seconds.values()) + rest, 3),
    }


def main() -> None:
    """Build the flows that are asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--operators", type=int, nargs="*", default=[1000, 2000])
    asked.add_argument("--only", nargs="*", default=[each.__name__ for each in SHAPES])
    given = asked.parse_args()
    views(100).plan  # noqa: B018 - what is loaded on first use is not measured
    for shape in SHAPES:
        for count in given.operators if shape.__name__ in given.only else []:
            print(json.dumps(measured(shape, count)), flush=True)


if __name__ == "__main__":
    main()
