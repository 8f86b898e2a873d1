"""How much of what operators keep lies in files is shown wherever it is shown how much they keep.

- progress, the last progress, metrics and the dashboard's moment say the same number;
- without a limit of memory it is nothing.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.query.query_page import QuerySight


def sums(limit: int | None) -> ps.Dataflow:
    flow = ps.Dataflow("sums")
    rows = flow.table("rows", "k long, name string")
    flow.output("names", rows.join(rows.group_by("k").agg(n=ps.count()), "k").select("name", "n"))
    if limit is not None:
        flow.spill_beyond(limit)
    return flow


@pytest.mark.parametrize("limit", [1, None])
def test_how_much_lies_in_files_is_the_same_everywhere(limit: int | None, tmp_path: Path) -> None:
    keys = [n % 5 for n in range(40)]
    (tmp_path / "in").mkdir()
    for file in "abc":
        table = pa.table({"k": keys, "name": [f"{file} {n}" for n in range(40)]})
        pq.write_table(table, tmp_path / "in" / f"{file}.parquet")
    query = sums(limit).start(
        rows=ps.io.files(str(tmp_path / "in")),
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        workers=2,
    )
    try:
        query.process_all_available()
        status, last = query.progress(), query.last_progress
        sight = QuerySight(query, query._supervisor, control=False)
        samples, shown = list(sight.samples()), sight.moment()["kept"]
    finally:
        query.stop()
    kept = {each.name: each for each in status.kept}
    spilled = {name: each.spilled_bytes for name, each in kept.items()}
    assert all(0 <= each.spilled_bytes <= each.size_bytes for each in status.kept)
    assert bool(sum(spilled.values())) == (limit is not None)
    assert sum(spilled.values()) == status.spilled_bytes
    assert last is not None
    assert {name: each["spilledBytes"] for name, each in last["kept"].items()} == spilled
    assert {f"{each['name']}: {each['what']}": each["spilled"] for each in shown} == spilled
    told = {
        f"{labels['operator']}: {labels['what']}": number
        for name, labels, number in samples
        if name == "pointstamp_spilled_bytes"
    }
    assert told == spilled
