"""Views in a time zone: the zone is a parameter of the plan, in which timestamps are shown, cut and read.

- each way to use a timestamp, in four zones, against Python's zoneinfo, also on several workers;
- the zone of a checkpoint: another one is rejected, with both names;
- flows in different zones in one process do not disturb each other;
- which operators know that they depend on the zone, and what explain says.

tests/expressions/test_spark_answers.py has each function in zones, tests/spark/test_answers.py the session.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.flow.plan import uses_time_zone, with_time_zone

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu")
INSTANTS = [
    datetime(2024, 3, 31, 22, 30, tzinfo=UTC) + timedelta(minutes=37 * step) for step in range(-60, 60, 7)
]
ROWS = pa.table({"at": pa.array(INSTANTS, pa.timestamp("us", "UTC"))})


def result(
    query: str, zone: str | None, workers: int = 1, processes: int | None = None
) -> list[dict[str, Any]]:
    flow = ps.sql(query, t="at timestamp", time_zone=zone)
    made = flow.run({"t": [ROWS]}, workers=workers, processes=processes)["result"][0].to_pylist()
    return sorted(({k: v for k, v in row.items() if k != "diff"} for row in made), key=lambda row: row["at"])


@pytest.mark.parametrize("zone", ZONES)
def test_a_timestamp_is_shown_in_the_zone_of_the_view(zone: str) -> None:
    query = """
        select at, month(at) m, cast(at as date) d, hour(at) h, date_format(at, 'yyyy-MM-dd HH:mm') f,
               date_trunc('day', at) day, at >= timestamp '2024-04-01 00:00:00' later, cast(at as string) s
        from t"""
    for row, at in zip(result(query, zone), sorted(INSTANTS), strict=True):
        local = at.astimezone(ZoneInfo(zone))
        midnight = local.replace(hour=0, minute=0)
        assert row["m"] == local.month
        assert row["d"] == local.date()
        assert row["h"] == local.hour
        assert row["f"] == local.strftime("%Y-%m-%d %H:%M")
        assert row["s"] == local.strftime("%Y-%m-%d %H:%M:%S")
        assert row["day"] == midnight.astimezone(UTC)
        assert row["later"] == (at >= datetime(2024, 4, 1, tzinfo=ZoneInfo(zone)))


@pytest.mark.parametrize("options", [{"workers": 3}, {"processes": 2}])
def test_every_worker_computes_in_the_zone(options: dict[str, int]) -> None:
    query = "select cast(at as date) as at, count(*) as n from t group by cast(at as date)"
    zone = ZoneInfo("America/St_Johns")
    expected: dict[date, int] = {}
    for at in INSTANTS:
        expected[at.astimezone(zone).date()] = expected.get(at.astimezone(zone).date(), 0) + 1
    found = result(query, "America/St_Johns", **options)
    assert {row["at"]: row["n"] for row in found} == expected


def test_flows_in_different_zones_run_side_by_side() -> None:
    flows = {
        zone: ps.sql("select at, hour(at) as h from t", t="at timestamp", time_zone=zone) for zone in ZONES
    }
    runs = {zone: flow.stream(t=[ROWS, ROWS]) for zone, flow in flows.items()}
    for _ in range(2):
        for zone, run in runs.items():
            _, tables = next(run)
            for row in tables["result"].to_pylist():
                assert row["h"] == row["at"].astimezone(ZoneInfo(zone)).hour


def test_values_and_verbs_of_tables_are_in_the_zone() -> None:
    flow = ps.Dataflow("days", time_zone="Europe/Berlin")
    rows = flow.stream_input("t", "at timestamp")
    flow.output("days", rows.select(day=ps.functions.day("at")))
    days = flow.run(t=[ROWS])["days"][0].column("day").to_pylist()
    assert sorted(set(days)) == sorted({at.astimezone(ZoneInfo("Europe/Berlin")).day for at in INSTANTS})
    query = "select t.at, v.a from t cross join (values (timestamp '2024-04-01 00:00:00')) v(a)"
    assert {row["a"] for row in result(query, "Europe/Berlin")} == {datetime(2024, 3, 31, 22, tzinfo=UTC)}


def test_a_query_resumes_in_the_zone_that_it_was_started_in(tmp_path: Path) -> None:
    def run(zone: str | None) -> dict[date, int]:
        query = "select cast(at as date) d, count(*) n from t group by cast(at as date)"
        flow = ps.sql(query, t="at timestamp", time_zone=zone)
        made = flow.run(t=[ROWS], checkpoint=tmp_path / "checkpoint")
        return {row["d"]: row["n"] for row in made["result"][0].to_pylist()}

    first = run("Europe/Berlin")
    with pytest.raises(RecoveryError, match=r"(?s)Europe/Berlin.*UTC|UTC.*Europe/Berlin"):
        run(None)
    assert run("Europe/Berlin") == first


def test_an_operator_knows_whether_it_depends_on_the_zone() -> None:
    flow = ps.sql(
        """create view days as select cast(at as date) d, count(*) n from t group by cast(at as date);
           create view all_of_it as select at, k + 1 as k from t where k > 1;
           create view filtered as select k, count(*) filter (where hour(at) > 3) as n from t group by k""",
        t="at timestamp, k long",
    )
    plan = with_time_zone(flow.plan, "Asia/Kathmandu")
    assert plan.time_zone == "Asia/Kathmandu"
    uses = {node.name for node in plan.nodes if node.time_zone is not None}
    assert len(uses) == 2  # the columns of both groups
    assert {node.time_zone for node in plan.nodes} == {None, "Asia/Kathmandu"}
    assert not any(map(uses_time_zone, ps.sql("select k + 1 as k from t", t="k long").plan.nodes))
    assert flow.explain().endswith("time zone: that of the Spark session, and UTC elsewhere\n")
    assert ps.sql("select hour(at) h from t", t="at timestamp", time_zone="+02:00").explain().endswith(
        "time zone: +02:00\n"
    )  # fmt: skip
    assert "time zone" not in ps.sql("select k + 1 as k from t", t="k long").explain()


@pytest.mark.parametrize("zone", ["Mars/Base", "", "+25:00", "../../etc/passwd", 3])
def test_a_zone_that_there_is_not_is_rejected(zone: Any) -> None:  # noqa: ANN401 - not even text
    with pytest.raises(FlowError, match="the time zone must be a region such as 'Europe/Berlin'"):
        ps.sql("select at from t", t="at timestamp", time_zone=zone)


def test_at_time_zone_goes_both_ways() -> None:
    query = """select at, at at time zone 'Asia/Kathmandu' as shown,
                      (at at time zone 'Asia/Kathmandu') at time zone 'Asia/Kathmandu' as back from t"""
    for row in result(query, "Europe/Berlin"):
        assert row["shown"] == row["at"].astimezone(ZoneInfo("Asia/Kathmandu")).replace(tzinfo=None)
        assert row["back"] == row["at"]
