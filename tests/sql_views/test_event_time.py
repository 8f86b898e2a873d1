# ruff: noqa: E501, S608 - a query is read best in one line, and is our own text
"""Watermarks and ``now()`` in SQL: what is over, what is not yet, and what is late.

The oracle works the bound of event time out of the rows of each epoch by itself, leaves late rows out, and
asks DuckDB with the bound in place of ``now()``.

What only this finds: a group that comes twice or too early, rows that are let go before the group they are
in, a condition whose sides are mixed up, a late row in a view.
"""

from datetime import datetime, timedelta
from random import Random

import duckdb
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import SqlError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import Simulator, cases, simulate

LATENESS = 4
BEGINNING = datetime(2024, 5, 1)

VIEWS = {
    "windows": (
        """select window.end as till, kind, count(*) as n, max(price) as most from bids
        group by window(moment, '10 seconds'), kind having window.end <= now() and count(*) > 1""",
        """select till, kind, count(*) as n, max(price) as most from (
            select *, time_bucket(interval 10 seconds, moment) + interval 10 seconds as till from bids)
        where till <= bound group by till, kind having count(*) > 1""",
    ),
    "sliding": (
        """select window.start as since, sum(price) as total from bids
        group by window(moment, '10 seconds', '5 seconds') having now() >= window.end""",
        """select since, sum(price) as total from (
            select time_bucket(interval 5 seconds, moment) - interval 5 seconds * n as since, price
            from bids, (values (0), (1)) as v(n)) group by since
        having since + interval 10 seconds <= bound""",
    ),
    "sessions": (
        """select kind, session_window.start as since, session_window.end as till, count(*) as n from bids
        group by kind, session_window(moment, '3 seconds') having session_window.end <= now()""",
        """select kind, min(moment) as since, max(moment) + interval 3 seconds as till, count(*) as n from (
            select *, sum(is_new) over (partition by kind order by moment rows unbounded preceding) as session
            from (select *, case when moment <= lag(moment) over (partition by kind order by moment) +
            interval 3 seconds
                then 0 else 1 end as is_new from bids))
        group by kind, session having till < bound""",
    ),
    "later": (
        "select moment, price from bids where moment + interval 3 seconds <= now()",
        "select moment, price from bids where moment + interval 3 seconds <= bound",
    ),
    "recent": (
        "select kind, count(*) as n from bids where moment > now() - interval 20 seconds group by kind",
        "select kind, count(*) as n from bids where moment + interval 20 seconds > before group by kind",
    ),
    "open": (
        """select window.end as till, count(*) as n from bids group by window(moment, '10 seconds')
        having window.end > now()""",
        """select till, count(*) as n from (
            select *, time_bucket(interval 10 seconds, moment) + interval 10 seconds as till from bids)
        where till > before group by till""",
    ),
    "joined": (
        """select b.moment, k.name from bids b left join kinds k on b.kind = k.kind
        where b.moment > now() - interval 10 seconds""",
        """select b.moment, k.name from bids b left join kinds k on b.kind = k.kind
        where b.moment + interval 10 seconds > before""",
    ),
}

DECLARED = f"""
create table bids (moment timestamp_ntz, kind long, price long, watermark for moment as moment - interval
{LATENESS} seconds); create table kinds (kind long, name string);
"""
KINDS = [{"kind": n, "name": name} for n, name in enumerate(["red", "blue"])]


def bids(seed: int, epochs: int) -> list[list[dict[str, object]]]:
    """Rows whose event times continue by fits and starts, some of them late."""
    random, now, made = Random(seed), 0, []
    for _ in range(epochs):
        now += random.choice([0, 2, 5, 12])
        made.append(
            [
                {
                    "moment": BEGINNING + timedelta(seconds=max(now + random.randint(-9, 6), 0)),
                    "kind": random.randint(0, 2),
                    "price": random.randint(0, 9),
                }
                for _ in range(random.choice([0, 3, 6]))
            ]
        )
    return made


def moment_of(row: dict[str, object]) -> datetime:
    moment = row["moment"]
    assert isinstance(moment, datetime)
    return moment


def check(name: str, seed: int, epochs: int, workers: int) -> int:
    """Compare a view with DuckDB after every epoch; how many rows were late."""
    ours, theirs = VIEWS[name]
    flow = ps.sql(DECLARED + ours, name=name)
    rows = bids(seed, epochs)
    results = flow.run(bids=rows, kinds=[KINDS, *([] for _ in rows[1:])], workers=workers)
    there: list[dict[str, object]] = []
    bound = before = BEGINNING - timedelta(days=1)
    late = 0
    schema = pa.schema([("moment", pa.timestamp("us")), ("kind", pa.int64()), ("price", pa.int64())])
    engine = duckdb.connect(config={"threads": 1})
    for epoch, arrived in enumerate(rows):
        in_time = [row for row in arrived if moment_of(row) >= bound]
        late += len(arrived) - len(in_time)
        there += in_time
        if arrived:
            before = bound
            greatest = max(moment_of(row) for row in arrived)
            bound = max(bound, greatest - timedelta(seconds=LATENESS))
        engine.register("rows", pa.Table.from_pylist(there, schema))
        engine.register("kinds", pa.Table.from_pylist(KINDS))
        engine.execute("create or replace temp view bids as select * from rows")
        query = theirs.replace(" bound", f" timestamp '{bound}'").replace("before", f"timestamp '{before}'")
        expected = sorted(map(str, engine.execute(query).fetchall()))
        found = results.table("result", as_of=epoch)
        assert sorted(str(tuple(row.values())) for row in found.to_pylist()) == expected, (name, seed, epoch)
    assert results["bids_late"].table().num_rows == late
    return late


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_event_time_is_duckdbs_with_the_bound_of_each_epoch(name: str) -> None:
    assert sum(check(name, seed, 8, 1 + seed % 2) for seed in range(2)) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_event_time_is_duckdbs_for_many_rows(name: str) -> None:
    assert sum(check(name, seed, 20, 1 + seed % 3) for seed in range(12)) > 0


def test_a_group_comes_once_when_it_is_over() -> None:
    flow = ps.sql(DECLARED + VIEWS["windows"][0])
    rows = bids(1, 12)
    results = flow.run(bids=rows, kinds=[[] for _ in rows])
    weights = [diff for table in results["result"].values() for diff in table["diff"].to_pylist()]
    assert weights
    assert set(weights) == {1}


@pytest.mark.parametrize("name", ["windows", "recent"])
def test_a_view_of_event_time_does_not_depend_on_the_schedule_or_on_crashes(name: str) -> None:
    plan = ps.sql(DECLARED + VIEWS[name][0]).plan
    rows = prepared(plan, {"bids": list(bids(3, 4)), "kinds": [KINDS, [], [], []]})
    for report in (
        simulate(Simulator(plan, rows), cases(range(2), 1, 3)),
        simulate(CrashSimulator(plan, rows), cases(range(2), 1, 3, (1, 3))),
    ):
        assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
        assert not report.unknown


def test_properties_say_the_same_as_a_watermark() -> None:
    text = """create table bids (minute long, price long) tblproperties
        ('event_time' = 'minute', 'lateness' = '2', 'late' = 'drop');
        select window.end as till, max(price) as price from bids
        group by window(minute, 10) having window.end <= now()"""
    rows = [[{"minute": m, "price": m} for m in each] for each in ([3, 8], [11], [9, 13], [5, 24])]
    results = ps.sql(text).run(bids=rows)
    assert [(row["epoch"], row["till"], row["price"]) for row in results["result"].table().to_pylist()] == [
        (2, 10, 9),
        (3, 20, 13),
    ]
    assert [row["rows"] for row in results["bids_late"].table().to_pylist()] == [1]


REFUSED = {
    "select moment from bids where moment < now()": "column 31: now.* changes .* WHERE and HAVING may have",
    "select now() as n from bids": "column 8: now.* changes without a change of the input",
    "select moment from bids where moment > now() or price > 1": r"now\(\) changes",
    "select moment from bids where moment > now() - interval 1 month": r"now\(\) changes",
    "select kind from kinds where date '2024-01-01' <= now()": "no table of the query has one",
    "select kind, count(*) as n from bids group by kind having max(moment) <= now()": "the aggregate max is not allowed",
    "select kind, max(moment) as m from bids group by kind having kind <= now()": "column 62: .* must have one type",
    "select * from (select moment, count(*) as n from bids group by moment) where moment <= now()": "write it in HAVING",
    "select count(*) as n from bids having count(*) <= now()": "the aggregate count is not allowed here",
}
"""What is no view of the tables above."""

WRONG = {
    "create table t (id long primary key, at timestamp, watermark for at as at)": "must be that of its 'order' column",
    "create table t (at timestamp, watermark for at as at + interval 1 second)": "a watermark must be a column minus",
    "create table t (at timestamp) tblproperties ('event_time' = 'at')": "needs an event time and an allowed lateness",
    "create table t (at timestamp, watermark for at as at) tblproperties ('late' = 'x')": "'late' must be one of",
    "create table t (at string, watermark for at as at)": "'at'",
    "create table t (at timestamp) tblproperties ('epoch' = '1 minute')": "'epoch' needs an event time",
    "create table t (at timestamp, watermark for at as at) tblproperties ('epoch' = '0 seconds')": "every= above 0",
    "create table t (at long, watermark for at as at) tblproperties ('epoch' = '5'); create view w as select at from t where at > now()": "is the watermark, but no table",
}
"""What is no table, or no table that such a view can be of."""

REFUSED_TEXTS = {
    **{DECLARED + text: said for text, said in REFUSED.items()},
    **{f"{text}; create view v as select at from t": said for text, said in WRONG.items()},
}


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_what_cannot_be_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SqlError, match=rf"(?s)^line \d+, .*{REFUSED_TEXTS[text]}"):
        ps.sql(text)


def test_epochs_of_event_time_are_those_of_python() -> None:
    minutes = [[1, 8], [12], [9, 14], [31], [6]]  # 9 is in time, 6 is not
    rows = [[{"minute": m} for m in each] for each in minutes]
    text = """create table clicks (minute long, watermark for minute as minute - 5) tblproperties ('epoch' =
    '10');
        select count(*) as n from clicks"""
    found = ps.sql(text).run(clicks=rows)
    flow = ps.Dataflow("test")
    clicks = flow.stream_input(
        "clicks", "minute long", epochs=ps.by_event_time("minute", every=10, lateness=5)
    )
    flow.output("result", clicks.to_table().agg(n=ps.count()))
    theirs = flow.run(clicks=rows)
    counts = {epoch: found.table("result", as_of=epoch)["n"].to_pylist() for epoch in (0, 1, 3)}
    assert counts == {0: [3], 1: [5], 3: [6]}
    assert {epoch: theirs.table("result", as_of=epoch)["n"].to_pylist() for epoch in (0, 1, 3)} == counts
    assert found["clicks_late"].table().to_pylist() == theirs["clicks_late"].table().to_pylist() != []
