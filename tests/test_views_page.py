"""docs/benchmarks/views.md shows the figures that were measured.

- the page is what benchmarks/views/page.py makes of the lines of a run;
- a query that was rejected is told with its reason and has no figures;
- the facts that change keep what is there beside the changes.
"""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
from benchmarks.views.page import PAGE, measured, page, summary, table
from benchmarks.views.tpcds import WEIGHT, ChangingFacts
from benchmarks.views.tpcds_data import Benchmark

LINE: dict[str, Any] = {
    "query": 3, "scale": 0.1, "rows": 356172, "define_ms": 80.0, "load_s": 6.6, "load_cpu_s": 0.4,
    "changed_rows": 4283.8, "refresh_ms": 20.0, "worst_ms": 30.0, "refresh_cpu_ms": 10.0,
    "worst_cpu_ms": 12.0,
    "state_mb": 7.2, "spark_ms": 600.0, "spark_cpu_ms": 900.0, "times_spark": 30.0, "times_spark_cpu": 90.0,
    "load": 2.0,
}  # fmt: skip


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m benchmarks.views.page"


def test_of_several_lines_for_a_query_the_last_counts() -> None:
    lines = [{**LINE, "rows": rows} for rows in (1, 2)]
    assert measured("\n".join(map(json.dumps, lines)))[0.1, 3]["rows"] == 2


def test_a_query_that_was_rejected_has_its_reason_and_no_figures() -> None:
    lines = [LINE, {"query": 4, "scale": 0.1, "rejected": "it is a sample", "load": 1.0}]
    told = summary(lines)
    assert told.startswith("Of 2 queries, 1 are incremental views")
    assert told.endswith("q4: it is a sample")
    assert "q4" not in table(lines)


def test_what_is_there_is_what_all_changes_add_up_to() -> None:
    facts = pa.table({"ss_item_sk": range(500), "ss_sales_price": [n % 7 for n in range(500)]})
    days = pa.table({"d_date_sk": range(20)})
    tables = ChangingFacts(
        Benchmark({"store_sales": facts, "date_dim": days}, {}), ["store_sales", "date_dim"]
    )
    epochs = [*tables.loaded(), tables.change(), tables.change()]
    counts: Counter[tuple[Any, ...]] = Counter()
    for each in epochs:
        for row in each["store_sales"].to_pylist():
            counts[row["ss_item_sk"], row["ss_sales_price"]] += row[WEIGHT]
    there = tables.there["store_sales"].to_pylist()
    assert +counts == Counter((row["ss_item_sk"], row["ss_sales_price"]) for row in there)
    assert [epoch["store_sales"].num_rows for epoch in epochs[2:]] == [
        7,
        7,
    ]  # five rows of 500, two come again
    assert all(epoch["date_dim"].num_rows == 0 for epoch in epochs[2:])
