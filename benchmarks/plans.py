"""What the rules of the optimizer save: TPC-H q1, q3 and q6 as logical plans, with rules and without.

    .venv/bin/python -m benchmarks.plans [--scale 0.05] [--only q1 q3 q6]

One JSON line for each query. Both plans run in this process, one after the other, over the same rows: the
load in two epochs (wall-clock and CPU seconds), ten changes of 1,000 rows (median milliseconds of CPU time),
and the bytes of state, with those of the inputs (``border``) in them. All answers are compared.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import pyarrow as pa
from benchmarks.sql.tpch_changes import WEIGHT, Changes, ChangingTables
from benchmarks.sql.tpch_data import SCHEMAS

import pointstamp as ps
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.plan.logical import Aggregate, Filter, Join, LogicalOperator, Project, Scan, TopK
from pointstamp.plan.lowering import Lowering
from pointstamp.plan.optimizing import optimize, plan_text
from pointstamp.reduce.aggregate import Aggregate as Aggregated
from pointstamp.rows.schema import as_schema
from pointstamp.running.status import status_of

LOADS: Final = 2
CHANGES: Final = 10
CHANGE: Final = 1_000


def scan(name: str) -> Scan:
    """Return a table of TPC-H whose rows have weights."""
    declared = pa.schema([*as_schema(SCHEMAS[name]), pa.field(WEIGHT, pa.int64())])
    return Scan(name, declared, "weights", WEIGHT)


def _revenue() -> Expression:
    return col("l_extendedprice") * (lit(Decimal(1)) - col("l_discount"))


def q1() -> LogicalOperator:
    """Return the pricing summary."""
    lines = Filter(scan("lineitem"), col("l_shipdate") <= lit(date(1998, 9, 2)))
    sums = {
        "sum_qty": col("l_quantity"),
        "sum_base_price": col("l_extendedprice"),
        "sum_disc_price": _revenue(),
        "sum_charge": _revenue() * (lit(Decimal(1)) + col("l_tax")),
    }
    asked = [(name, Aggregated("sum", each)) for name, each in sums.items()]
    means = {"avg_qty": "l_quantity", "avg_price": "l_extendedprice", "avg_disc": "l_discount"}
    asked += [(name, Aggregated("avg", each)) for name, each in means.items()]
    asked += [("count_order", Aggregated("count"))]
    return Aggregate(lines, ("l_returnflag", "l_linestatus"), tuple(asked))


def q3() -> LogicalOperator:
    """Return the ten orders of greatest value that are not shipped."""
    customers = Join(scan("customer"), scan("orders"), "inner", (("c_custkey", "o_custkey"),))
    rows = Join(customers, scan("lineitem"), "inner", (("o_orderkey", "l_orderkey"),))
    day = lit(date(1995, 3, 15))
    condition = (col("c_mktsegment") == "BUILDING") & (col("o_orderdate") < day) & (col("l_shipdate") > day)
    keys = ("o_orderkey", "o_orderdate", "o_shippriority")
    revenue = Aggregate(Filter(rows, condition), keys, (("revenue", Aggregated("sum", _revenue())),))
    return TopK(revenue, 10, (), ("revenue desc", "o_orderdate"))


def q6() -> LogicalOperator:
    """Return what would be earned without discounts."""
    condition = (
        (col("l_shipdate") >= lit(date(1994, 1, 1)))
        & (col("l_shipdate") < lit(date(1995, 1, 1)))
        & col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
        & (col("l_quantity") < 24)
    )
    rows = Filter(scan("lineitem"), condition)
    made = Project(rows, (("earned", col("l_extendedprice") * col("l_discount")),))
    return Aggregate(made, (), (("revenue", Aggregated("sum", "earned")),))


QUERIES: Final = {
    "q1": (q1, ["lineitem"]),
    "q3": (q3, ["customer", "orders", "lineitem"]),
    "q6": (q6, ["lineitem"]),
}


def main() -> None:
    """Run the queries that are asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--scale", type=float, default=0.05)
    asked.add_argument("--only", nargs="*", default=list(QUERIES))
    asked.add_argument("--plans", action="store_true", help="show the plans and the rules that fired")
    given = asked.parse_args()
    for name in given.only:
        make, names = QUERIES[name]
        tables = ChangingTables(given.scale, names)
        epochs = [*tables.loaded(LOADS), *(tables.change(CHANGE) for _ in range(CHANGES))]
        written = make()
        started = perf_counter()
        optimized = optimize([written])
        figures: dict[str, Any] = {"optimize_ms": round((perf_counter() - started) * 1e3, 2)}
        if given.plans:
            fired = "\n".join(map(str, optimized.fired))
            print(plan_text([written]), fired, plan_text(optimized.roots), sep="\n\n")
        answers = []
        for words, root in (("without", written), ("with", optimized.roots[0])):
            answer, measured = run(root, epochs)
            answers.append(answer)
            figures |= {f"{each} {words}": value for each, value in measured.items()}
        assert answers[0] == answers[1], f"{name}: the optimized plan has other rows"
        print(json.dumps({"query": name, "scale": given.scale, **figures}), flush=True)


def run(root: LogicalOperator, epochs: Sequence[Changes]) -> tuple[list[Counter[Any]], dict[str, float]]:
    """Return the answer after each epoch, and what it cost."""
    flow = ps.Dataflow("plan")

    def read(each: Scan) -> ps.Table:
        stream = flow.stream_input(each.input, each.declared)
        if each.columns is not None:
            stream = stream.select(*each.schema.names, WEIGHT)
        return stream.to_table(weight=WEIGHT)

    flow.output("answer", Lowering([root], read).table(root))
    results: dict[int, list[pa.Table]] = {}

    def keep(_: str, epoch: int, table: pa.Table) -> None:
        results.setdefault(epoch, []).append(table)

    taken: list[tuple[float, float]] = []
    with flow.open(on_result=keep) as session:
        for number, change in enumerate(epochs):
            ready = {name: table.combine_chunks() for name, table in change.items()}
            started, cpu = perf_counter(), process_time()
            for name, table in ready.items():
                session.input(name).send(table)
                session.input(name).advance_to(number + 1)
            session.settle()
            taken.append((perf_counter() - started, process_time() - cpu))
        kept = status_of(session).kept
    total: Counter[Any] = Counter()
    answers = []
    for number in range(len(epochs)):
        for table in results.get(number, []):
            for row in table.to_pylist():
                weight = row.pop("diff")
                total[tuple(row.values())] += weight
        answers.append(Counter({row: count for row, count in total.items() if count}))
    return answers, {
        "load_s": round(sum(wall for wall, _ in taken[:LOADS]), 3),
        "load_cpu_s": round(sum(cpu for _, cpu in taken[:LOADS]), 3),
        "update_cpu_ms": round(median(cpu for _, cpu in taken[LOADS:]) * 1e3, 2),
        "state_mb": round(sum(each.size_bytes for each in kept) / 1e6, 3),
        "input_mb": round(sum(each.size_bytes for each in kept if "border" in each.name) / 1e6, 3),
    }


if __name__ == "__main__":
    main()
