"""What tables keep is shown: by ``describe`` before the flow runs, in rows and bytes while it does.

What is shown is compared with what was sent in, which says how many rows there must be.
"""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import pointstamp as ps
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.time_index import Calendar
from pointstamp.cli.main import main
from pointstamp.connectors.memory import Rows
from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.driver.status import status_of
from pointstamp.flow.plan import How, NodeKind
from pointstamp.incremental.shared_arrangements import shared_in_words
from pointstamp.show.describe import kept_words
from pointstamp.show.live import Snapshot, tables
from pointstamp.state.memory_budget import KeptRows, kept_by

ORDERS = [pa.record_batch({"id": list(range(n, n + 50)), "shop": [n // 50] * 50}) for n in (0, 50)]
SHOPS = [
    pa.record_batch({"shop": [0, 1, 2], "city": ["Rome", "Oslo", "Rome"]}),
    pa.record_batch({"shop": pa.array([], pa.int64()), "city": pa.array([], pa.string())}),
]
SECONDS_MAX = 60.0
HOWS = [how for how in get_args(How) if how != "cross"]


def joined() -> ps.Dataflow:
    flow = ps.Dataflow("orders")
    orders = flow.table("orders", "id long, shop long")
    shops = flow.table("shops", "shop long, city string")
    both = orders.join(shops, "shop")
    flow.output("cities", both.count("city"))
    flow.output("last", both.top(1, "city", by="id desc"))
    flow.output("largest", both.group_by("city").agg(id=ps.max("id")))
    return flow


KEPT = {
    "join: left": 100,
    "join: right": 3,
    "count: sums": 2,
    "top: rows": 2,
    "agg: rows": 2,
}
"""Rows of these tables are only added, so no more than the first ones are kept."""


def test_describe_says_what_is_kept_and_what_a_change_costs() -> None:
    said = joined().describe()
    assert "'join', operator" in said
    assert "  keeps both sides, by key; a change costs its rows and their matches\n" in said
    assert "  keeps the sums of each key, and no rows; a change costs its rows\n" in said
    assert said.count("  keeps the first rows of each key, and no others") == 2


def test_describe_says_where_a_change_costs_all_rows_of_a_key() -> None:
    flow = ps.Dataflow("medians")
    flow.output("m", flow.table("x", "k long, v double").group_by("k").agg(m=ps.median("v")))
    assert "a change costs all rows of the keys that change" in flow.describe()


def all_operations() -> ps.Dataflow:
    """A flow with every operation of tables, and those of streams that keep something."""
    flow = ps.Dataflow("everything")
    stream = flow.stream_input("a", "k long, at long, n long, tags array<long>")
    a = stream.drop("tags").to_table()
    b = flow.table("b", "k long, at long, n long")
    events = flow.stream_input("events", "k long, at long, n long").with_watermark("at", 3)
    states = flow.table("states", "k long, at long, n long", snapshots=True)
    weighted = flow.table("weighted", "k long, w long", weight="w")
    codes = flow.table("codes", "k long, op string", operation="op")
    upserts = flow.table("upserts", "k long, n long", key="k", order="n")
    debezium = flow.stream_input("debezium", "value string, offset long").to_table(
        format="debezium", schema="k long", value="value"
    )
    windows = events.to_table().window("at", 10).retain_until("window_end")
    tables = [
        *(a.join(b, "k", how=how) for how in HOWS),
        a.join(b, how="cross"),
        a.join_asof(b, "k", at="at"),
        a.select("k").union(b.select("k")).distinct(),
        a.except_(b),
        a.intersect(b),
        a.distinct("k", by="at"),
        a.with_columns(m=ps.col("n") + 1).rename({"m": "o"}).filter(ps.col("n") > 0),
        a.count("k"),
        a.agg(total=ps.sum("n"), distinct=ps.count_distinct("n")),
        a.group_by("k").agg(low=ps.min("n"), typical=ps.median("n"), latest=ps.last("n", by="at")),
        a.top(2, "k", by="at"),
        a.with_columns(before=ps.lag("n").over(partition_by="k", order_by="at")),
        a.session_window("k", at="at", gap=5, rows=ps.count()),
        events.to_table().session_window("k", at="at", gap=5).retain_until("session_end"),
        windows.count("window_end"),
        stream.to_table().explode("tags"),
        a.map_batches(lambda batch: batch, a.schema),
        a.select("k").iterate(lambda x: x.distinct()),
        states.count("k"),
        weighted,
        codes,
        upserts,
        debezium,
    ]
    for number, table in enumerate(tables):
        flow.output(f"table {number}", table)
    streams = [
        a.changes(),
        a.upserts("k"),
        a.to_stream(),
        windows.count("window_end").emit_on_close("window_end"),
        events.window("at", 10).emit_on_close("window_end"),
        events.session_window("k", at="at", gap=5),
        events.join_interval(events.select("k", "at"), "k", at="at", within=2),
        stream.drop("tags").lookup(b, "k"),
        stream.with_columns(total=ps.sum("n").over(partition_by="k", order_by="at", rows=2)),
        stream.group_by("k").agg(total=ps.sum("n")),
        stream.top(1, "k", by="at"),
    ]
    for number, each in enumerate(streams):
        flow.output(f"stream {number}", each)
    return flow


def test_every_operator_says_what_it_keeps_and_what_a_change_costs() -> None:
    nodes = all_operations().plan.nodes
    silent = [node.name for node in nodes if node.kind is NodeKind.OPERATOR and kept_words(node) is None]
    assert silent == []
    assert len({kept_words(node) for node in nodes}) > 15


def test_every_operator_that_keeps_rows_can_say_how_many() -> None:
    flow = all_operations()
    words = {node.name: kept_words(node) or "nothing" for node in flow.plan.nodes}
    with LocalRun(flow.plan, 1) as run:
        (worker,) = workers_of(run)
        told = {instance.name for instance in worker.instances.values() if kept_by(instance.logic)}
    keepers = {name for name, each in words.items() if not each.startswith("nothing")}
    silent = keepers - told
    shared = {node.name for node in flow.plan.nodes if shared_in_words(flow.plan, node)}
    assert silent - shared == {name for name in keepers if "the greatest event time" in words[name]}
    assert shared - silent, "who shares with others is told of once"


def test_describe_says_which_operators_keep_a_table_once() -> None:
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, f"k long, {name} long") for name in ("a", "b"))
    flow.output("left", a.join(b, "k", how="left"))
    flow.output("itself", b.join(b.rename({"b": "c"}), "k"))
    words = flow.describe()
    assert "shares left, by k, with join: left: others" in words
    assert "shares right, by k, with join 2" in words
    assert words.count("shares") == 5, "what is renamed is the same table"


def test_a_table_with_weights_is_kept_once_for_its_border_and_for_all_that_is_distinct() -> None:
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, "k long, n long, w long", weight="w") for name in ("a", "b"))
    flow.output("distinct", a.distinct())
    flow.output("rest", a.except_(b))
    flow.output("selected", a.select("k").distinct().named("keys"))
    words = flow.describe()
    assert "shares rows, by k, n, with running: border, except\n" in words
    assert "shares right, by k, n, with running: border 2\n" in words
    with LocalRun(flow.plan, 1) as run:
        for name in ("a", "b"):
            run.input(name).send(pa.table({"k": [1, 1, 2], "n": [1, 1, 3], "w": [1, 1, 1]}))
            run.input(name).advance_to(1)
        run.settle()
        kept = {each.name: each.rows for each in status_of(run).kept}
    assert kept == {
        "running: border: rows": 2,
        "running: border 2: rows": 2,
        "keys: rows": 2,
    }


def test_first_rows_in_one_order_are_kept_once() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "k long, n long, w long", weight="w")
    flow.output("one", rows.top(1, "k", by="n desc"))
    flow.output("three", rows.top(3, "k", by=["n desc", "k"]).named("three"))
    flow.output("least", rows.top(1, "k", by="n").named("least"))
    words = flow.describe()
    assert "shares rows, by k, with three" in words
    assert words.count("shares") == 2, "another order is another arrangement"


@pytest.mark.parametrize("workers", [1, 3])
def test_the_status_counts_what_all_workers_keep(workers: int) -> None:
    with LocalRun(joined().plan, workers) as run:
        for name, batches in (("orders", ORDERS), ("shops", SHOPS)):
            for epoch, table in enumerate(batches):
                run.input(name).send(table)
                run.input(name).advance_to(epoch + 1)
        run.settle()
        status = status_of(run)
        for each in status.kept:
            assert each.rows == KEPT[each.name], each
            assert each.size_bytes >= 8 * each.rows
        assert {each.name for each in status.kept} == KEPT.keys()
        assert status.size_bytes == sum(each.size_bytes for each in status.kept)
        rates = dict.fromkeys(("orders", "shops", "cities", "last", "largest"), 0.0)
        console = Console(width=100)
        with console.capture() as shown:
            console.print(tables(Snapshot(status, 1.0, rates, rates)))
        assert "join: left" in shown.get()


def test_a_query_and_its_checkpoint_say_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = joined().start(
        {"orders": Rows(tuple(ORDERS)), "shops": Rows(tuple(SHOPS))},
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
    )
    assert query.await_termination(SECONDS_MAX)
    assert query.last_progress is not None
    kept = query.last_progress["kept"]
    assert kept.keys() == KEPT.keys()
    assert kept["join: left"]["rows"] == 100
    assert kept["join: left"]["bytes"] >= 100 * 16
    assert main(["snapshots", str(tmp_path / "checkpoint")]) == 0
    said = capsys.readouterr().out
    assert "kept after epoch 1, by operator and what it is:" in said
    for name, each in kept.items():
        assert re.search(rf"  {name} +{each['rows']:,} rows +{each['bytes']:,} bytes\n", said), name


def test_rows_that_wait_for_event_time_are_counted() -> None:
    schema = pa.schema([("k", pa.int64()), DIFF_FIELD])
    waiting = Calendar(schema)
    waiting.add(pa.record_batch([pa.array([1, 2]), pa.array([1, 1])], schema=schema), np.array([5, 9]))
    assert waiting.kept_rows == KeptRows(2, 2 * 3 * 8)
