"""The changes of a Delta table as a source: what is made of them is the table again, version by version.

deltalake is the oracle: each version of the table, read plainly.

Families, and what only each can find:
- random histories of inserts, updates, deletes, merges, overwrites and compactions, followed by a query while
  they happen, on two processes of which one is killed, and then by another driver: a version that is lost,
  read twice or mixed with its neighbour;
- beginnings: at a version, with the table as it is, shared by several workers, partitioned;
- what is refused: no table, no feed, a feed that began later, files that VACUUM has removed.
"""

import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError, SourceError
from support.options import with_options
from support.streams import until

SCHEMA = "id long, city string, _change_type string"
FEED = {"delta.enableChangeDataFeed": "true"}
CITIES = ("Rome", "Oslo", None, "", "a city with a long name")


def rows(ids: list[int], rng: random.Random) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "city": pa.array([rng.choice(CITIES) for _ in ids], pa.string())}
    )


def begin(path: Path, rng: random.Random, **given: Any) -> None:  # noqa: ANN401 - as deltalake takes them
    write_deltalake(str(path), rows([1, 2, 2, 3], rng), configuration=FEED, **given)


def change(path: Path, rng: random.Random) -> None:
    """Make the next version of a table."""
    table = DeltaTable(str(path))
    some = rng.randrange(6)
    match rng.randrange(6):
        case 0 | 1:
            write_deltalake(str(path), rows([rng.randrange(6) for _ in range(3)], rng), mode="append")
        case 2:
            table.update(predicate=f"id >= {some}", updates={"city": "concat(city, 'x')"})
        case 3:
            table.delete(f"id = {some}")
        case 4:
            write_deltalake(str(path), rows([some, some + 1], rng), mode="overwrite")
        case _:
            merge = table.merge(rows([some, 7], rng), "t.id = s.id", source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
    if rng.random() < 0.2:
        DeltaTable(str(path)).optimize.compact()


def plainly(path: Path, version: int) -> Counter[tuple[Any, ...]]:
    found = DeltaTable(str(path), version=version).to_pyarrow_table().select(["id", "city"])
    return Counter(tuple(row.values()) for row in found.to_pylist())


def people() -> ps.Dataflow:
    flow = ps.Dataflow("people")
    flow.output("people", flow.table("changes", SCHEMA, operation="_change_type"))
    return flow


def published(places: dict[str, Any], epoch: int) -> Counter[tuple[Any, ...]]:
    found = ps.read_table(str(places["output"]), "people", as_of=epoch)
    return Counter(tuple(row.values()) for row in found.select(["id", "city"]).to_pylist())


def places_in(path: Path) -> dict[str, Any]:
    return {"checkpoint": path / "c", "output": path / "out"}


def newest(path: Path) -> int:
    return int(DeltaTable(str(path)).version())


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)]
)
def test_every_version_is_an_epoch_no_matter_who_dies(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    begin(table := tmp_path / "t", rng)
    places = places_in(tmp_path)
    source: Any = ps.io.delta(table, starting_version=0)
    query = people().start(changes=source, processes=2, **places)
    for number in range(6):
        change(table, rng)
        if number == 3:
            until(lambda: len(query.workers()) == 2)
            os.kill(query.workers()[0][1], signal.SIGKILL)
    until(lambda: query.epoch == newest(table))
    query.stop()
    for _ in range(4):
        change(table, rng)
    query = people().start(changes=source, workers=3, **places)
    query.process_all_available()
    until(lambda: query.epoch == newest(table))
    query.stop()
    for version in range(newest(table) + 1):
        assert published(places, version) == plainly(table, version), version


def test_the_table_as_it_is_comes_first(tmp_path: Path) -> None:
    rng = random.Random(7)
    begin(table := tmp_path / "t", rng, partition_by="id")
    for _ in range(3):
        write_deltalake(str(table), rows([4, 5], rng), mode="append")
    first = newest(table)
    places = places_in(tmp_path)
    query = people().start(changes=ps.io.delta(table), workers=3, **places)
    until(lambda: query.epoch == 0)
    assert published(places, 0) == plainly(table, first)
    DeltaTable(str(table)).delete("id = 4")
    until(lambda: query.epoch == 1)
    query.stop()
    assert published(places, 1) == plainly(table, first + 1)


def test_versions_can_be_the_epochs_themselves(tmp_path: Path) -> None:
    rng = random.Random(3)
    begin(table := tmp_path / "t", rng)
    for _ in range(5):
        change(table, rng)
    places = places_in(tmp_path)
    source: Any = ps.io.delta(table, starting_version=0, versions_per_tick=None)
    query = people().start(
        changes=source, available_now=True, options=ps.QueryOptions(epoch="_commit_version"), **places
    )
    query.await_termination()
    for version in range(newest(table) + 1):
        assert published(places, version) == plainly(table, version), version


def test_the_time_of_a_commit_is_there_for_who_asks(tmp_path: Path) -> None:
    begin(table := tmp_path / "t", random.Random(0))
    DeltaTable(str(table)).delete("id = 3")
    flow = ps.Dataflow("times")
    columns = "_commit_timestamp timestamp, _commit_version long, id long"
    flow.output("times", flow.stream_input("changes", columns, extra_columns="ignore"))
    places = places_in(tmp_path)
    for number, version in enumerate([None, 0]):
        there: Any = {name: f"{path} {number}" for name, path in places.items()}
        query = flow.start(
            changes=ps.io.delta(table, starting_version=version), available_now=True, **with_options(there)
        )
        query.await_termination()
        found = ps.read_changes(there["output"], "times")
        assert found["_commit_timestamp"].null_count == 0
        assert set(found["_commit_version"].to_pylist()) == ({1} if number == 0 else {0, 1})


# What is refused.


def refused(tmp_path: Path, source: Any, kind: type[Exception], said: str) -> None:  # noqa: ANN401 - a source
    with pytest.raises(kind, match=said):
        people().start(changes=source, **with_options(places_in(tmp_path))).await_termination()


def test_a_path_without_a_table_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, ps.io.delta(tmp_path / "nothing"), SourceError, "the path contains no Delta table")


def test_a_table_without_the_feed_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), rows([1], random.Random(0)))
    refused(tmp_path, ps.io.delta(tmp_path / "t"), SourceError, "has no change data feed. Set its property")


def test_versions_before_the_feed_began_are_refused(tmp_path: Path) -> None:
    write_deltalake(table := str(tmp_path / "t"), rows([1], random.Random(0)))
    DeltaTable(table).alter.set_table_properties(FEED)
    source = ps.io.delta(table, starting_version=0)
    refused(tmp_path, source, SourceError, "version 0 cannot be read: the table had no change data feed then")


def test_versions_that_were_vacuumed_are_refused(tmp_path: Path) -> None:
    begin(table := tmp_path / "t", random.Random(0))
    write_deltalake(str(table), rows([9], random.Random(0)), mode="overwrite")
    vacuum = DeltaTable(str(table)).vacuum
    vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    source = ps.io.delta(table, starting_version=0)
    refused(
        tmp_path, source, SourceError, "version 0 cannot be read: files of it are gone, most likely by VACUUM"
    )


def test_a_column_that_the_table_does_not_have_is_refused(tmp_path: Path) -> None:
    begin(table := tmp_path / "t", random.Random(0))
    flow = ps.Dataflow("people")
    flow.output("people", flow.stream_input("changes", "name string, _change_type string"))
    with pytest.raises(SourceError, match="No field named name"):
        flow.start(
            changes=ps.io.delta(table, starting_version=0), **with_options(places_in(tmp_path))
        ).await_termination()


@pytest.mark.parametrize("version", [None, 0])
def test_a_feed_whose_changes_are_not_declared_is_refused(tmp_path: Path, version: int | None) -> None:
    begin(table := tmp_path / "t", random.Random(0))
    flow = ps.Dataflow("people")
    flow.output("people", flow.table("changes", "id long"))
    with pytest.raises(SchemaError, match=r"column '_change_type'.*operation='_change_type'"):
        flow.start(
            changes=ps.io.delta(table, starting_version=version), **with_options(places_in(tmp_path))
        ).await_termination()


@pytest.mark.parametrize("given", [{"starting_version": -1}, {"versions_per_tick": 0}])
def test_numbers_that_mean_nothing_are_refused(given: Any) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=f"{next(iter(given))} must be"):
        ps.io.delta("t", **given)
