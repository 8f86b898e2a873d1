# ruff: noqa: E501, S608 - a query is read best in one line, and is our own text
"""``now()`` has one value in a query: the least watermark of all tables that it reads, wherever they stand.

The oracle works the watermark of each table out of its rows, takes the lesser one, and asks DuckDB with it in
place of ``now()``. It does so after every epoch, for random interleavings of the event times of two tables.

What only this finds: a condition on ``now()`` that goes by the watermark of one table, because it was applied
before the other one was joined, subtracted or asked; groups that are freed by another clock than the one they
wait for.
"""

from random import Random

import duckdb
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.flow import watermarks
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import Simulator, cases, simulate

DECLARED = """
create table orders (id long, ts long, watermark for ts as ts - 2);
create table paid (id long, ts long, watermark for ts as ts - 1);
"""
LATENESS = {"orders": 2, "paid": 1}

OVER = {
    "left join": "select o.id, o.ts, p.ts as paid from orders o left join paid p on o.id = p.id where o.ts + 3 <= now()",
    "inner join": "select o.id, o.ts, p.ts as paid from orders o join paid p on o.id = p.id where o.ts + 3 <= now()",
    "comma": "select o.id, o.ts, p.ts as paid from orders o, paid p where o.id = p.id and o.ts + 3 <= now()",
    "right side": "select o.id, o.ts, p.ts as paid from orders o join paid p on o.id = p.id where p.ts + 1 <= now()",
    "semi join": "select o.id, o.ts from orders o left semi join paid p on o.id = p.id where o.ts + 3 <= now()",
    "anti join": "select o.id, o.ts from orders o left anti join paid p on o.id = p.id where o.ts + 3 <= now()",
    "exists": "select o.id, o.ts from orders o where o.ts + 3 <= now() and exists (select 1 from paid p where p.id = o.id)",
    "not exists": "select o.id, o.ts from orders o where o.ts + 3 <= now() and not exists (select 1 from paid p where p.id = o.id)",
    "in": "select o.id, o.ts from orders o where o.ts + 3 <= now() and o.id in (select id from paid)",
    "not in": "select o.id, o.ts from orders o where o.ts + 3 <= now() and o.id not in (select id from paid)",
    "scalar": "select o.id, o.ts, (select max(p.ts) from paid p where p.id = o.id) as m from orders o where o.ts + 3 <= now()",
    "except": "select o.id from orders o where o.ts + 3 <= now() except select id from paid",
    "intersect": "select o.id from orders o where o.ts + 3 <= now() intersect select id from paid",
    "union": "select o.id from orders o where o.ts + 3 <= now() union all select id from paid where ts <= now()",
    "with": "with old as (select id, ts from orders where ts + 3 <= now()) select old.id, old.ts, p.ts as paid from old left join paid p on old.id = p.id",
    "subquery": "select old.id, old.ts from (select id, ts from orders where ts + 3 <= now()) old left anti join paid p on old.id = p.id",
}
KEPT = {
    "left join": "select o.id, o.ts, p.ts as paid from orders o left join paid p on o.id = p.id where o.ts + 3 > now()",
    "not exists": "select o.id, o.ts from orders o where o.ts + 3 > now() and not exists (select 1 from paid p where p.id = o.id)",
    "except": "select o.id from orders o where o.ts + 3 > now() except select id from paid",
    "both": "select o.id, o.ts, p.ts as paid from orders o join paid p on o.id = p.id where o.ts + 3 > now() and p.ts + 2 > now()",
}
GROUPS = {
    "windows": (
        "select window.end as till, count(*) as n from orders group by window(ts, 4) having window.end <= "
        "now() union all select ts, id from paid where id < 0",
        "select (ts // 4 + 1) * 4 as till, count(*) as n from orders group by till having till <= now()",
    ),
    "sessions": (
        "select o.id, session_window.end as till, count(*) as n from orders o where o.id in (select id from "
        "paid where ts < 1000) or o.id >= 0 group by o.id, session_window(o.ts, 2) having session_window.end "
        "<= now()",
        """select id, max(ts) + 2 as till, count(*) as n from (
            select *, sum(fresh) over (partition by id order by ts rows unbounded preceding) as session from (
                select *, case when ts <= lag(ts) over (partition by id order by ts) + 2 then 0 else 1 end as
                fresh from orders)) group by id, session having till < now()""",
    ),
}
QUERIES = {
    **{f"over: {name}": (text, text) for name, text in OVER.items()},
    **{f"kept: {name}": (text, text) for name, text in KEPT.items()},
    **{f"groups: {name}": texts for name, texts in GROUPS.items()},
}

Rows = dict[str, list[list[dict[str, int]]]]


def stories(seed: int, epochs: int) -> Rows:
    """Rows of both tables, of which now one and now the other is ahead; some are late."""
    random, now = Random(seed), {"orders": 0, "paid": 0}
    made: Rows = {"orders": [], "paid": []}
    for _ in range(epochs):
        for name, rows in made.items():
            now[name] += random.choice([0, 1, 4, 9]) if random.random() < 0.7 else 0
            count = random.choice([0, 1, 2])
            rows.append(
                [
                    {"id": random.randrange(4), "ts": max(now[name] - random.randrange(4), 0)}
                    for _ in range(count)
                ]
            )
    return made


def check(name: str, seed: int, epochs: int, workers: int) -> None:
    ours, theirs = QUERIES[name]
    rows = stories(seed, epochs)
    results = ps.sql(DECLARED + ours).run(rows, workers=workers)
    there: dict[str, list[dict[str, int]]] = {"orders": [], "paid": []}
    bounds: dict[str, int] = {}
    before, now = -1000, -1000
    engine = duckdb.connect(config={"threads": 1})
    for epoch in range(epochs):
        for table, arrived in ((table, each[epoch]) for table, each in rows.items()):
            there[table] += [row for row in arrived if row["ts"] >= bounds.get(table, -1000)]
        for table, arrived in ((table, each[epoch]) for table, each in rows.items()):
            if arrived:
                latest = max(row["ts"] for row in arrived) - LATENESS[table]
                bounds[table] = max(latest, bounds.get(table, latest))
            schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
            engine.register(f"{table}_rows", pa.Table.from_pylist(there[table], schema))
            engine.execute(f"create or replace temp view {table} as select * from {table}_rows")
        if any(each[epoch] for each in rows.values()):
            before, now = now, min(bounds.values()) if len(bounds) == 2 else -1000
        # Rows whose time is over leave in the next epoch that has event times.
        query = (
            theirs.replace("> now()", f"> ({before})")
            .replace("now()", f"({now})")
            .replace("left semi join", "semi join")
            .replace("left anti join", "anti join")
        )
        expected = sorted(map(str, engine.execute(query).fetchall()))
        found = results.table("result", as_of=epoch).to_pylist()
        assert sorted(str(tuple(row.values())) for row in found) == expected, (name, seed, epoch)


@pytest.mark.parametrize("name", QUERIES)
def test_now_is_the_least_watermark_of_all_tables_of_a_query(name: str) -> None:
    for seed in range(3):
        check(name, seed, 8, 1 + seed % 2)


@pytest.mark.long
@pytest.mark.parametrize("name", QUERIES)
def test_now_is_the_least_watermark_in_many_interleavings(name: str) -> None:
    for seed in range(100, 140):
        check(name, seed, 14, 1 + seed % 3)


def test_a_row_without_a_partner_is_not_emitted_before_the_other_table_has_come_as_far() -> None:
    flow = ps.sql(DECLARED + OVER["left join"])
    orders = [[{"id": 1, "ts": 10}], [{"id": 2, "ts": 20}], [], []]
    paid = [[{"id": 9, "ts": 10}], [], [{"id": 1, "ts": 11}], [{"id": 5, "ts": 16}]]
    results = flow.run(orders=orders, paid=paid)
    assert [results["result"][epoch].to_pylist() for epoch in range(4)] == [
        [],
        [],
        [],
        [{"id": 1, "ts": 10, "paid": 11, "diff": 1}],
    ]


def test_a_view_has_a_clock_of_its_own() -> None:
    """Rows of a view do not wait for a table that only another view reads."""
    text = (
        DECLARED
        + "create view old as select id from orders where ts + 3 <= now();\ncreate view rest as select old.id from old left anti join paid p on old.id = p.id"
    )
    results = ps.sql(text).run(orders=[[{"id": 1, "ts": 1}], [{"id": 2, "ts": 9}]], paid=[[], []])
    assert results.table("old").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("name", ["over: left join", "over: except", "groups: sessions"])
def test_the_clock_of_two_tables_does_not_depend_on_the_schedule_or_on_crashes(name: str) -> None:
    plan = ps.sql(DECLARED + QUERIES[name][0]).plan
    rows = prepared(plan, dict(stories(5, 5)))
    for report in (
        simulate(Simulator(plan, rows), cases(range(2), 1, 3)),
        simulate(CrashSimulator(plan, rows), cases(range(1), 1, 3, (1, 3))),
    ):
        assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
        assert not report.unknown


def test_verbs_go_by_the_least_watermark_of_what_they_are_made_of() -> None:
    for seed in range(3):
        rows = stories(seed, 8)
        flow = ps.Dataflow("verbs")
        tables = {
            name: flow.stream_input(name, "id long, ts long").with_watermark("ts", LATENESS[name]).to_table()
            for name in rows
        }
        both = tables["orders"].union(tables["paid"])
        flow.output("over", both.emit_on_close(ps.col("ts") + 3).to_table())
        results = flow.run(rows)
        there: list[dict[str, int]] = []
        bounds: dict[str, int] = {}
        for epoch in range(8):
            for name, each in rows.items():
                there += [row for row in each[epoch] if row["ts"] >= bounds.get(name, -1000)]
            for name, each in rows.items():
                if each[epoch]:
                    latest = max(row["ts"] for row in each[epoch]) - LATENESS[name]
                    bounds[name] = max(latest, bounds.get(name, latest))
            now = min(bounds.values()) if len(bounds) == 2 else -1000
            found = results.table("over", as_of=epoch).to_pylist()
            wanted = [row for row in there if row["ts"] + 3 <= now]
            assert sorted(map(str, found)) == sorted(map(str, wanted)), (seed, epoch)


def test_a_condition_that_goes_by_one_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "_clock_of_query", lambda _: ())
    for name in ("over: left join", "over: not exists", "over: except", "groups: windows"):
        with pytest.raises(AssertionError, match=name):
            _check_many(name)


def _check_many(name: str) -> None:
    for seed in range(6):
        check(name, seed, 10, 1)
