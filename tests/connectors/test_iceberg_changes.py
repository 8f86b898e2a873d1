"""The changes of an Iceberg table as a source: what is made of them is the table again, snapshot by snapshot.

pyiceberg's own scan of each snapshot is the oracle; it shares with the source the reader of data files only.

Families, and what only each can find:
- random histories of appends, deletes and overwrites, followed in three runs of a query: a snapshot that is
  lost, read twice or mixed with its neighbour;
- beginnings: with the table as it is, shared by two workers, and with an empty table;
- what is rejected: no table, a table that was made again, delete files.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import pointstamp as ps
from pointstamp.errors import FlowError, SourceError
from support.options import with_options

SCHEMA = "id long, city string, _change_type string"
CITIES = ("Rome", "Oslo", None, "", "a city with a long name")


def properties(home: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}


def rows(ids: list[int], rng: random.Random) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "city": pa.array([rng.choice(CITIES) for _ in ids], pa.string())}
    )


def made(home: Path) -> Any:  # noqa: ANN401 - a table of pyiceberg
    catalog = load_catalog("default", **properties(home))
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table("db.people", schema=rows([], random.Random(1)).schema)


def change(table: Any, rng: random.Random) -> None:  # noqa: ANN401
    """Make the next snapshot of a table, or several."""
    some = rng.randrange(6)
    match rng.randrange(4):
        case 0 | 1:
            table.append(rows([rng.randrange(6) for _ in range(3)], rng))
        case 2:
            table.delete(f"id = {some}")
        case _:
            table.overwrite(rows([some, some + 1], rng), overwrite_filter=f"id >= {some}")


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.select(["id", "city"]).to_pylist())


def flow() -> ps.Dataflow:
    made = ps.Dataflow("people")
    people = made.stream_input("people", SCHEMA)
    made.output("people", people.to_table(operation="_change_type"))
    return made


def follow(home: Path, **options: Any) -> None:  # noqa: ANN401
    query = flow().start(
        {"people": ps.io.iceberg("db.people", catalog=properties(home))},
        checkpoint=home / "checkpoint",
        output=home / "out",
        available_now=True,
        **with_options(options),
    )
    query.await_termination(60)
    if (error := query.exception()) is not None:
        raise error


@pytest.mark.filterwarnings("ignore:Delete operation did not match")  # of a random delete, by pyiceberg
@pytest.mark.parametrize("seed", range(4))
def test_the_changes_of_each_snapshot_make_the_table_again(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = made(tmp_path)
    table.append(rows([1, 2, 2, 3], rng))
    first = table.current_snapshot().snapshot_id
    follow(tmp_path, workers=2)
    for _ in range(5):
        change(table, rng)
    follow(tmp_path)
    change(table, rng)
    follow(tmp_path, workers=2)
    history = [each.snapshot_id for each in table.refresh().history()]
    after = history[history.index(first) :]
    for epoch, snapshot in enumerate(after):
        theirs = counted(table.scan(snapshot_id=snapshot).to_arrow())
        assert counted(ps.read_table(tmp_path / "out", "people", as_of=epoch)) == theirs, (epoch, snapshot)


def test_an_empty_table_begins_with_its_first_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path)
    query = flow().start(
        {"people": ps.io.iceberg("db.people", catalog=properties(tmp_path), look_every_seconds=0.05)},
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
    )
    try:
        table.append(rows([1, 2], random.Random(3)))
        query.process_all_available(60)
        assert counted(ps.read_table(tmp_path / "out", "people")) == counted(table.scan().to_arrow())
    finally:
        query.stop()


def test_a_folder_without_a_catalog_is_read_by_its_metadata(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows([1, 2, 3], random.Random(3)))
    source = ps.io.iceberg(table.location().removeprefix("file://"))
    (unit,) = source.watch(None, available_now=True).poll()
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("_change_type", pa.string())])
    found = pa.Table.from_batches(list(source.read(unit.parts[0], schema)), schema)
    assert counted(found) == counted(table.scan().to_arrow())
    assert set(found["_change_type"].to_pylist()) == {"insert"}


def test_what_cannot_be_followed_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such table"):
        ps.io.iceberg(tmp_path / "nothing").check()
    with pytest.raises(FlowError, match="snapshots_per_tick must be at least 1"):
        ps.io.iceberg(tmp_path, snapshots_per_tick=0)
    table = made(tmp_path)
    table.append(rows([1], random.Random(3)))
    source = ps.io.iceberg("db.people", catalog=properties(tmp_path))
    with pytest.raises(SourceError, match="snapshot 17, which was taken last, is not an ancestor"):
        source.watch(17, available_now=True)
