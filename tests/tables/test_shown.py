"""What tables keep is shown: by ``describe`` before the flow runs, in rows and bytes while it does.

What is shown is compared with what was sent in, which says how many rows there must be.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import pointstamp as ps
from pointstamp.running.local import LocalRun
from pointstamp.running.status import status_of
from pointstamp.show.standing import Snapshot, tables
from pointstamp.sources.memory import Rows
from pointstamp.tables.kept.calendar import Calendar
from pointstamp.tables.kept.weights import DIFF_FIELD

ORDERS = [pa.record_batch({"id": list(range(n, n + 50)), "shop": [n // 50] * 50}) for n in (0, 50)]
SHOPS = [
    pa.record_batch({"shop": [0, 1, 2], "city": ["Rome", "Oslo", "Rome"]}),
    pa.record_batch({"shop": pa.array([], pa.int64()), "city": pa.array([], pa.string())}),
]
SECONDS_MAX = 60.0


def joined() -> ps.Dataflow:
    flow = ps.Dataflow("orders")
    orders = flow.input("orders", "id long, shop long").running()
    shops = flow.input("shops", "shop long, city string").running()
    both = orders.join(shops, "shop")
    flow.output("cities", both.count("city"))
    flow.output("last", both.top(1, "city", by="id desc"))
    flow.output("largest", both.reduce("city", id=ps.max("id")))
    return flow


KEPT = {
    "join: left": 100,
    "join: right": 3,
    "count: sums": 2,
    "top: rows": 100,
    "reduce: sums": 2,
    "reduce: greatest of id": 100,
}


def test_describe_says_what_is_kept_and_what_a_change_costs() -> None:
    said = joined().describe()
    assert "'join', operator" in said
    assert "  keeps both sides, by key; a change costs its rows and their matches\n" in said
    assert "  keeps the sums of each key, and no rows; a change costs its rows\n" in said
    assert said.count("  keeps all rows, in order by key") == 1


def test_describe_says_where_a_change_costs_all_rows_of_a_key() -> None:
    flow = ps.Dataflow("medians")
    flow.output("m", flow.input("x", "k long, v double").running().reduce("k", m=ps.median("v")))
    assert "a change costs all rows of the keys that change" in flow.describe()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_status_counts_what_all_workers_keep(workers: int) -> None:
    with LocalRun(joined().plan, workers) as run:
        for name, batches in (("orders", ORDERS), ("shops", SHOPS)):
            for epoch, table in enumerate(batches):
                run.input(name).send(table)
                run.input(name).advance_to(epoch + 1)
        run.settle()
        status = status_of(run)
        for each in status.kept:  # each of two runs may keep a row that is one when they are merged
            assert KEPT[each.name] <= each.rows <= 2 * KEPT[each.name], each
            assert each.size_bytes >= 8 * each.rows
        assert {each.name for each in status.kept} == KEPT.keys()
        assert status.size_bytes == sum(each.size_bytes for each in status.kept)
        rates = dict.fromkeys(("orders", "shops", "cities", "last", "largest"), 0.0)
        console = Console(width=100)
        with console.capture() as shown:
            console.print(tables(Snapshot(status, 1.0, rates, rates)))
        assert "join: left" in shown.get()


def test_a_query_says_what_it_keeps_in_its_progress(tmp_path: Path) -> None:
    query = joined().start_local(
        {"orders": Rows(tuple(ORDERS)), "shops": Rows(tuple(SHOPS))},
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
    )
    assert query.awaitTermination(SECONDS_MAX)
    assert query.lastProgress is not None
    kept = query.lastProgress["kept"]
    assert kept.keys() == KEPT.keys()
    assert kept["join: left"]["rows"] == 100
    assert kept["join: left"]["bytes"] >= 100 * 16


def test_rows_that_wait_for_event_time_are_counted() -> None:
    schema = pa.schema([("k", pa.int64()), DIFF_FIELD])
    waiting = Calendar(schema)
    waiting.add(pa.record_batch([pa.array([1, 2]), pa.array([1, 1])], schema=schema), np.array([5, 9]))
    assert waiting.kept_rows == (2, 2 * 3 * 8)
