"""A record that cannot be read, after an epoch was published: the query can be restarted, with every sink.

Families:
- Kafka: ``on_bad`` is changed at the restart, to each of its values, or ``skip`` is set for a record that
  can be read and is wrong, with each sink;
- files: ``skip`` or ``on_bad`` is changed at the restart, with each sink that needs no server;
- the folder for bad records: what is written there, once.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

import pointstamp as ps
from connectors.harness import Sqlite
from connectors.sqlite_sink import SqliteSink
from connectors.test_iceberg import closing_publishers, properties
from pointstamp.connectors.bad_records import write_bad_records
from pointstamp.errors import FlowError, SourceError
from support.kafka_broker import address, committed, new_topic, put
from support.postgres import Server
from support.streams import SECONDS_MAX

Reader = Callable[[], list[int]]


@contextmanager
def _parquet(folder: Path) -> Iterator[tuple[Any, Reader]]:
    yield str(folder), lambda: ps.read_changes(str(folder), "n")["x"].to_pylist()


@contextmanager
def _delta(folder: Path) -> Iterator[tuple[Any, Reader]]:
    yield (
        ps.io.DeltaSink(str(folder)),
        lambda: DeltaTable(folder / "n").to_pyarrow_table()["x"].to_pylist(),
    )


@contextmanager
def _iceberg(folder: Path) -> Iterator[tuple[Any, Reader]]:
    def read() -> list[int]:
        catalog = SqlCatalog("default", **properties(folder))
        rows = catalog.load_table(("pointstamp", "n")).scan().to_arrow()
        catalog.close()
        return [*rows["x"].to_pylist()]

    with closing_publishers():
        yield ps.io.IcebergSink(str(folder), properties(folder)), read


@contextmanager
def _own(folder: Path) -> Iterator[tuple[Any, Reader]]:
    folder.mkdir()
    subject = Sqlite(folder)
    rows = subject._rows
    yield (
        SqliteSink(str(folder / "db")),
        lambda: [json.loads(row[2].replace("'", '"'))["x"] for row in rows("published")],
    )


@contextmanager
def _postgres(folder: Path) -> Iterator[tuple[Any, Reader]]:
    del folder
    with Server() as server:

        def read() -> list[int]:
            with psycopg.connect(server.conninfo) as connection:
                return [x for (x,) in connection.execute("SELECT x FROM place.n").fetchall()]

        yield ps.io.PostgresSink(server.conninfo, "place"), read


@contextmanager
def _kafka(folder: Path) -> Iterator[tuple[Any, Reader]]:
    del folder
    topic = new_topic()
    sink = ps.io.KafkaSink(address(), topic, commits=f"commits-{topic}")
    yield sink, lambda: [json.loads(record.value or b"")["x"] for record in committed(topic)]


LOCAL = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg, "one of your own": _own}
ALL = {**LOCAL, "postgres": _postgres, "kafka": _kafka}


def _run(folder: Path, source: object, output: object) -> dict[str, Any]:
    flow = ps.Dataflow("rows")
    flow.output("n", flow.stream_input("rows", "x long"))
    return _run_flow(flow, folder, source, output)


def _run_flow(flow: ps.Dataflow, folder: Path, source: object, output: object) -> dict[str, Any]:
    query = flow.start(
        rows=source,
        checkpoint=str(folder / "checkpoint"),
        output=output,  # type: ignore[arg-type]  # one of the kinds above
        available_now=True,
    )
    try:
        assert query.await_termination(SECONDS_MAX)
        return dict(query.last_progress or {})
    finally:
        query.stop(finish=False)


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ALL)
def test_a_record_that_cannot_be_read_is_written_to_a_folder_after_a_restart(
    kind: str, tmp_path: Path
) -> None:
    topic = new_topic()
    with ALL[kind](tmp_path / "out") as (output, read):
        put(topic, [b'{"x": 1}'])
        _run(tmp_path, ps.io.kafka(address(), topic), output)
        put(topic, [b'{"x": 2}', b"\xff no JSON", b'{"x": 3}'])
        with pytest.raises(
            SourceError, match=r"offset 2 cannot be decoded.*on_bad=ps\.io\.BadRecords\(path\)"
        ):
            _run(tmp_path, ps.io.kafka(address(), topic), output)
        assert sorted(read()) == [1]
        bad = tmp_path / "bad"
        progress = _run(tmp_path, ps.io.kafka(address(), topic, on_bad=ps.io.BadRecords(str(bad))), output)
        assert progress["rowsSkipped"] == {"rows": 1}
        assert sorted(read()) == [1, 2, 3]
        put(topic, [b'{"x": 4}'])
        _run(tmp_path, ps.io.kafka(address(), topic), output)
        assert sorted(read()) == [1, 2, 3, 4]
    (written,) = bad.rglob("*.json")
    assert written.relative_to(bad).as_posix() == f"topic={topic}/partition=0/{2:020d}.json"
    found = json.loads(written.read_text())
    assert (found["offset"], found["value"], found["value_base64"]) == (2, None, "/yBubyBKU09O")
    assert found["reason"]


@pytest.mark.kafka
@pytest.mark.parametrize("on_bad", ["skip", "drop"])
def test_a_record_that_cannot_be_read_is_left_out_after_a_restart(on_bad: Any, tmp_path: Path) -> None:  # noqa: ANN401
    topic = new_topic()
    with _delta(tmp_path / "out") as (output, read):
        put(topic, [b'{"x": 1}'])
        _run(tmp_path, ps.io.kafka(address(), topic), output)
        put(topic, [b"no JSON", b'{"x": 2}'])
        with pytest.raises(SourceError, match="offset 1 cannot be decoded"):
            _run(tmp_path, ps.io.kafka(address(), topic), output)
        _run(tmp_path, ps.io.kafka(address(), topic, on_bad=on_bad), output)
        assert sorted(read()) == [1, 2]


def _count(folder: Path, source: object, output: object) -> dict[str, Any]:
    """The rows that are there, of changes with a weight."""
    flow = ps.Dataflow("rows")
    flow.output("n", flow.table("rows", "x long, diff long", weight="diff").changes().select("x"))
    return _run_flow(flow, folder, source, output)


def _records_of(topic: str, wanted: ps.Expression, folder: Path) -> list[str]:
    """The names of records, by their values, as docs/reference/connectors/index.md says."""
    flow = ps.Dataflow("search")
    rows = flow.stream_input("rows", "x long, diff long, partition long, offset long")
    flow.output("n", rows.filter(wanted))
    _run_flow(
        flow, folder, ps.io.kafka(address(), topic, columns=["partition", "offset"]), str(folder / "out")
    )
    found = ps.read_changes(str(folder / "out"), "n").to_pylist()
    return [f"{topic}/{row['partition']}/{row['offset']}" for row in found]


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ALL)
def test_a_deletion_of_a_row_that_is_not_there_is_left_out_by_its_offset_after_a_restart(
    kind: str, tmp_path: Path
) -> None:
    topic = new_topic()
    with ALL[kind](tmp_path / "out") as (output, read):
        put(topic, [b'{"x": 1, "diff": 1}'])
        _count(tmp_path, ps.io.kafka(address(), topic), output)
        put(topic, [b'{"x": 2, "diff": 1}', b'{"x": 9, "diff": -1}', b'{"x": 3, "diff": 1}'])
        with pytest.raises(
            FlowError, match=r"epoch 1 deletes 1 of row \{'x': 9\}, of which the table contains 0"
        ):
            _count(tmp_path, ps.io.kafka(address(), topic), output)
        assert sorted(read()) == [1]
        skip = _records_of(topic, ps.col("diff") < 0, tmp_path / "search")
        progress = _count(tmp_path, ps.io.kafka(address(), topic, skip=skip), output)
        assert progress["rowsSkipped"] == {"rows": 1}
        assert sorted(read()) == [1, 2, 3]
        put(topic, [b'{"x": 4, "diff": 1}'])
        _count(tmp_path, ps.io.kafka(address(), topic), output)
        assert sorted(read()) == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["orders", "orders/0", "orders/0/-1", "a/b/0/1", ""])
def test_records_to_be_left_out_are_named_by_topic_partition_and_offset(name: str) -> None:
    with pytest.raises(FlowError, match=r"skip must name records as 'topic/partition/offset', got"):
        ps.io.kafka("h:1", "orders", skip=[name])
    with pytest.raises(FlowError, match=r"skip must be a list of records, got 'orders/0/1'"):
        ps.io.kafka("h:1", "orders", skip="orders/0/1")


@pytest.mark.parametrize(
    ("options", "left"),
    [({"skip": ["2.csv"]}, [1, 3]), ({"on_bad": "drop"}, [1, 2, 3])],
    ids=["its file", "its row"],
)
@pytest.mark.parametrize("kind", LOCAL)
def test_what_cannot_be_read_of_a_file_is_left_out_after_a_restart(
    kind: str, options: dict[str, Any], left: list[int], tmp_path: Path
) -> None:
    there = tmp_path / "in"
    there.mkdir()
    with LOCAL[kind](tmp_path / "out") as (output, read):
        (there / "1.csv").write_text("x\n1\n")
        _run(tmp_path, ps.io.files(there, "csv"), output)
        (there / "2.csv").write_text("x\nnone\n2\n")
        (there / "3.csv").write_text("x\n3\n")
        with pytest.raises(FlowError, match=r"2\.csv"):
            _run(tmp_path, ps.io.files(there, "csv"), output)
        assert sorted(read()) == [1]
        _run(tmp_path, ps.io.files(there, "csv", **options), output)
        assert sorted(read()) == left


def test_a_file_that_deletes_a_row_that_is_not_there_is_left_out_after_a_restart(tmp_path: Path) -> None:
    there = tmp_path / "in"
    there.mkdir()
    with _parquet(tmp_path / "out") as (output, read):
        (there / "1.csv").write_text("x,diff\n1,1\n")
        _count(tmp_path, ps.io.files(there, "csv"), output)
        (there / "2.csv").write_text("x,diff\n9,-1\n")
        (there / "3.csv").write_text("x,diff\n3,1\n")
        with pytest.raises(FlowError, match=r"deletes 1 of row \{'x': 9\}, of which the table contains 0"):
            _count(tmp_path, ps.io.files(there, "csv"), output)
        _count(tmp_path, ps.io.files(there, "csv", skip=["2.csv"]), output)
        assert sorted(read()) == [1, 3]


# The folder.


def _message(offset: int, key: bytes | None, value: bytes | None) -> Any:  # noqa: ANN401 - in the place of a Message
    return SimpleNamespace(
        topic=lambda: ".t",
        partition=lambda: 7,
        offset=lambda: offset,
        timestamp=lambda: (1, 1_700_000_000_000),
        key=lambda: key,
        value=lambda: value,
    )


def test_a_bad_record_is_written_once_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    folder = ps.io.BadRecords(str(tmp_path / "bad"))
    for reason in ("first", "second"):
        write_bad_records(folder, [(_message(3, None, b"x"), reason), (_message(12, b"k", None), reason)])
    found = sorted((tmp_path / "bad").rglob("*.json"))
    assert [json.loads(each.read_text()) for each in found] == [
        {
            "topic": ".t",
            "partition": 7,
            "offset": offset,
            "timestamp": 1_700_000_000_000,
            "reason": "first",
            "key": key,
            "value": value,
            "key_base64": key_base64,
            "value_base64": value_base64,
        }
        for offset, key, value, key_base64, value_base64 in [
            (3, None, "x", None, "eA=="),
            (12, "k", None, "aw==", None),
        ]
    ]


def test_a_relative_folder_for_bad_records_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = ps.io.BadRecords("bad")
    monkeypatch.chdir("/")
    assert folder.path == str(tmp_path / "bad")


def test_the_reason_for_keep_without_a_column_names_the_folder() -> None:
    with pytest.raises(FlowError, match=r"on_bad=ps\.io\.BadRecords\(path\)"):
        ps.io.kafka("h:1", "t", on_bad="keep")
