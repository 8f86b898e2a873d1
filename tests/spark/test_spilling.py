"""State beyond a limit of memory, on Spark: a worker is killed, and nothing but the memory is different.

The tables are joined and added up with ``spill_beyond`` so low that everything lies in files. The answer is
DuckDB's, over all rows that were sent and not deleted. Files have no names, so those of a killed worker are
gone with it: the folder is empty while its process is gone, and at the end, and no process has one open.
"""

import os
import signal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from support.streams import SECONDS_MAX, put, until

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROWS: Final = 2_000
FILES: Final = 4


def sums(folder: Path) -> ps.Dataflow:
    flow = ps.Dataflow("sums")
    orders = flow.table("orders", "id long, k long, price long, w long", weight="w")
    people = flow.table("people", "k long, country string")
    both = orders.join(people, "k")
    flow.output("totals", both.group_by("country").agg(n=ps.count(), total=ps.sum("price")))
    flow.spill_beyond("1 kB", folder=folder)
    return flow


def orders(number: int) -> dict[str, list[int]]:
    """New rows, and of the rows before each second one deleted."""
    new = range(number * ROWS, (number + 1) * ROWS)
    gone = range((number - 1) * ROWS, number * ROWS, 2) if number else range(0)
    ids, weights = [*new, *gone], [1] * len(new) + [-1] * len(gone)
    return {"id": ids, "k": [n % 97 for n in ids], "price": [n * 31 % 1_007 for n in ids], "w": weights}


PEOPLE: Final[dict[str, list[Any]]] = {
    "k": list(range(97)),
    "country": [f"country {n % 7}" for n in range(97)],
}


def files_in(folder: Path, pids: list[int]) -> int:
    """How many files of the folder these processes have open or mapped, though they have no names."""
    found = 0
    for pid in pids:
        try:
            found += (Path("/proc") / str(pid) / "maps").read_text().count(f"{folder}/")
        except OSError:
            continue  # it is gone
    return found


def totals(output: Path) -> list[tuple[object, ...]]:
    table = ps.read_changes(str(output), "totals")
    with duckdb.connect() as connection:
        connection.register("changes", table)
        query = "select country, n, total from changes group by all having sum(diff) > 0 order by all"
        return connection.sql(query).fetchall()


def expected(number: int) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.register("orders", pa.concat_tables([pa.table(orders(n)) for n in range(number)]))
        connection.register("people", pa.table(PEOPLE))
        query = (
            "select country, sum(w)::bigint as n, sum(w * price)::bigint as total from orders join people "
            "using (k) group by country order by all"
        )
        return connection.sql(query).fetchall()


def test_state_in_files_survives_the_death_of_a_worker_and_leaves_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    put(tmp_path / "people", "0", PEOPLE)
    put(tmp_path / "orders", "0", orders(0))
    query = sums(spilled).start(
        on=spark,
        orders=ps.io.files(tmp_path / "orders"),
        people=ps.io.files(tmp_path / "people"),
        checkpoint=f"{tmp_path}/c",
        output=f"{tmp_path}/o",
        workers=2,
        options=ps.QueryOptions(
            restarts=ps.RestartPolicy(restarts_max=50, pause_seconds=0.01, pause_seconds_max=0.1),
            silence_seconds_max=SECONDS_MAX,
        ),
    )
    try:
        until(lambda: (tmp_path / "o").exists() and query.epoch >= 0)
        for number in range(1, FILES):
            put(tmp_path / "orders", str(number), orders(number))
            query.process_all_available()
            workers = [pid for _, pid in query.workers()]
            assert files_in(spilled, workers)
            assert query.progress().spilled_bytes
            if number == 2:
                before = query.restarts
                os.kill(workers[0], signal.SIGKILL)
                until(lambda: query.restarts > before)  # noqa: B023 - used at once
            assert os.listdir(spilled) == []
        assert totals(tmp_path / "o") == expected(FILES)
        workers += [pid for _, pid in query.workers()]
    finally:
        query.stop()
    until(lambda: not files_in(spilled, workers))
    assert os.listdir(spilled) == []
