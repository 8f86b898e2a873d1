"""Topics of Kafka as a sink.

- *Contract*: the claims that hold for every sink, on a real broker.
- *Records*: rows, upserts and changes as what a reader of committed records finds.
- *Round trips*: what one query writes another reads back as the same table.
- *Mistakes*: rejected with an error, before anything is written.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from connectors.harness import Kafka
from pointstamp.connectors.kafka import sink as publisher_module
from pointstamp.connectors.kafka import sink as sink_module
from pointstamp.connectors.kafka.cluster import asked
from pointstamp.connectors.kafka.record_encoding import STAGED, KafkaRecord, records
from pointstamp.connectors.sink import prepared
from pointstamp.errors import FlowError, RecoveryError, SchemaError, StorageError
from pointstamp.journal.ledger import Ledger
from pointstamp.testing.sink_claims import (
    SinkClaim,
    a_process_may_die_before_any_step_and_the_next_one_completes_its_work,
)
from support.kafka_broker import address, committed, new_topic, put

pytestmark = pytest.mark.kafka

DEATHS = a_process_may_die_before_any_step_and_the_next_one_completes_its_work

PEOPLE = "id long, city string"


def _run(flow: ps.Dataflow, folder: Path, sink: ps.io.KafkaSink, **inputs: Any) -> None:  # noqa: ANN401
    query = flow.start(checkpoint=str(folder), output=sink, available_now=True, **inputs)
    query.await_termination()


def _people() -> tuple[ps.Dataflow, ps.Table]:
    flow = ps.Dataflow("people")
    return flow, flow.table("people", f"{PEOPLE}, gone boolean", key="id", deleted="gone")


def _row(number: int, city: str | None, *, gone: bool = False) -> dict[str, Any]:
    return {"id": number, "city": city, "gone": gone}


EPOCHS = [
    [_row(1, "Rome"), _row(2, "Oslo")],
    [_row(1, "Bern"), _row(3, "Wien")],
    [_row(2, None, gone=True)],
]


@pytest.fixture(params=["in the journal", "in files"])
def staged_where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are staged with their commit, as small ones are, or in files, as large ones."""
    if request.param == "in files":
        monkeypatch.setattr(sink_module, "INLINE_BYTES_MAX", 0)


@pytest.mark.long
@pytest.mark.usefixtures("staged_where")
@pytest.mark.parametrize(
    "claim",
    [claim for claim in ps.testing.SINK_CLAIMS if claim is not DEATHS],
    ids=lambda claim: claim.__name__,
)
def test_it_keeps_the_contract(claim: SinkClaim, tmp_path: Path) -> None:
    numbers = count()
    claim(lambda: Kafka(tmp_path / str(next(numbers))))


@pytest.mark.long
@pytest.mark.usefixtures("staged_where")
def test_a_process_may_die_before_any_step_of_its_commits(tmp_path: Path) -> None:
    numbers = count()
    DEATHS(lambda: Kafka(tmp_path / str(next(numbers))))


def test_upserts_of_a_table_are_keys_with_tombstones_and_are_read_back_as_the_table(tmp_path: Path) -> None:
    topic, again = new_topic(cleanup_policy="compact"), new_topic()
    flow, people = _people()
    flow.output("people", people.upserts("id", deleted="gone"))
    sink = ps.io.KafkaSink(address(), topic, key="id", deleted="gone")
    _run(flow, tmp_path / "one", sink, people=EPOCHS)
    found = [(record.key, record.value) for record in committed(topic)]
    assert sorted(found[:2]) == [(b"1", b'{"id":1,"city":"Rome"}'), (b"2", b'{"id":2,"city":"Oslo"}')]
    assert sorted(found[2:4]) == [(b"1", b'{"id":1,"city":"Bern"}'), (b"3", b'{"id":3,"city":"Wien"}')]
    assert found[4:] == [(b"2", b"")]
    reading = ps.Dataflow("read back")
    schema = f"{PEOPLE}, gone boolean, place long"
    back = reading.table("people", schema, key="id", order="place", deleted="gone")
    reading.output("people", back)
    columns = {"gone": "tombstone", "place": "offset"}
    source = ps.io.kafka(address(), topic, key="id", columns=columns)
    _run(reading, tmp_path / "two", ps.io.KafkaSink(address(), again, key="id"), people=source)
    rows = [json.loads(record.value)["after"] for record in committed(again)]
    assert sorted((row["id"], row["city"]) for row in rows) == [(1, "Bern"), (3, "Wien")]


def test_changes_of_a_table_are_events_of_debeziums_and_are_read_back_as_the_table(tmp_path: Path) -> None:
    topic = new_topic()
    flow, people = _people()
    flow.output("people", people)
    _run(flow, tmp_path / "one", ps.io.KafkaSink(address(), topic, key="id"), people=EPOCHS)
    events = [json.loads(record.value) for record in committed(topic)]
    assert [event["op"] for event in events] == ["c", "c", "c", "u", "d"] or [
        event["op"] for event in events
    ] == ["c", "c", "u", "c", "d"]
    reading = ps.Dataflow("read back")
    text = reading.stream_input("events", "value string, offset long")
    back = text.to_table(format="debezium", schema=PEOPLE, value="value", key="id", order="offset")
    reading.output("people", back)
    source = ps.io.kafka(address(), topic, format="raw", columns=["value", "offset"], rows_per_tick=2)
    query = reading.start(
        checkpoint=str(tmp_path / "two"), output=str(tmp_path / "out"), available_now=True, events=source
    )
    query.await_termination()
    table = ps.read_table(str(tmp_path / "out"), "people")
    assert sorted(zip(*table.select(["id", "city"]).to_pydict().values(), strict=True)) == [
        (1, "Bern"),
        (3, "Wien"),
    ]


def test_a_value_is_sent_as_it_is_and_several_key_columns_are_an_object(tmp_path: Path) -> None:
    source, raw, keyed = new_topic(), new_topic(), new_topic()
    put(source, [b"\x00\xff", b"text"])
    flow = ps.Dataflow("raw")
    flow.output("raw", flow.stream_input("records", "value binary"))
    given = ps.io.kafka(address(), source, format="raw", columns=["value"])
    _run(flow, tmp_path / "raw", ps.io.KafkaSink(address(), raw, value="raw"), records=given)
    assert [(record.key, record.value) for record in committed(raw)] == [(None, b"\x00\xff"), (None, b"text")]
    flow = ps.Dataflow("keyed")
    flow.output("keyed", flow.stream_input("rows", "a long, b string"))
    sink = ps.io.KafkaSink(address(), {"keyed": keyed}, key={"keyed": ["a", "b"]}, epoch="at")
    _run(flow, tmp_path / "keyed", sink, rows=[[{"a": 1, "b": "x"}]])
    assert [(record.key, record.value) for record in committed(keyed)] == [
        (b'{"a":1,"b":"x"}', b'{"at":0,"a":1,"b":"x"}')
    ]


def test_what_is_deleted_comes_before_what_is_inserted_and_both_of_a_key_are_an_update() -> None:
    rows = [(b"1", b"a", 1), (b"2", b"b", -1), (b"1", b"c", -1), (None, b"d", 2), (None, b"e", -1)]
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    staged = pa.Table.from_arrays(columns, schema=STAGED)
    assert list(records(staged)) == [
        KafkaRecord(None, b'{"op":"d","before":e,"after":null}'),
        KafkaRecord(b"2", b'{"op":"d","before":b,"after":null}'),
        KafkaRecord(b"1", b'{"op":"u","before":c,"after":a}'),
        KafkaRecord(None, b'{"op":"c","before":null,"after":d}'),
        KafkaRecord(None, b'{"op":"c","before":null,"after":d}'),
    ]


ROWS = {"rows": pa.schema([("id", pa.int64()), ("gone", pa.bool_())])}


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"key": "no"}, SchemaError, "output 'rows' has no column 'no', which the sink's records need"),
        (
            {"deleted": "gone"},
            FlowError,
            "a deleted row is published as a record with its key alone. Name the key",
        ),
        (
            {"deleted": "id", "key": "id"},
            SchemaError,
            "deleted='id' must name a boolean column",
        ),
        ({"value": "raw"}, SchemaError, "needs a column 'value' of binary or string type"),
        ({"topic": {"other": "t"}}, FlowError, "output 'rows' has no topic"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(
    arguments: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        ps.io.KafkaSink("nowhere:1", **{"topic": "t", **arguments}).for_query("q", ROWS)


def test_a_topic_that_is_not_there_is_told_before_anything_is_written(tmp_path: Path) -> None:
    sink = ps.io.KafkaSink(address(), "not-there", staging=str(tmp_path)).for_query("q", ROWS)
    with pytest.raises(
        RecoveryError, match=r"has no topic 'not-there', which the sink publishes to. Nothing"
    ):
        sink.publisher().check_outputs([])
    assert not list(tmp_path.iterdir())


def test_no_reader_waits_for_a_commit_that_could_neither_be_sent_nor_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    sink = ps.io.KafkaSink(address(), topic, staging=str(tmp_path)).for_query(topic, ROWS)
    publisher = sink.publisher()
    publisher.publish(0, 0, [])
    staged = sink.writer(0, 1).stage("rows", {1: [pa.record_batch({"x": pa.array([1], pa.int64())})]})
    right = publisher_module._send

    def sends_some(producer: Any, topic: str, given: Any) -> None:  # noqa: ANN401 - as it is called
        right(producer, topic, given)
        assert producer.flush(30) == 0
        raise RuntimeError

    monkeypatch.setattr(publisher_module, "_send", sends_some)
    with pytest.raises(OSError, match="the disk is full"), prepared(publisher, 1, 1, staged):
        raise OSError("the disk is full")
    put(topic, [b"of another"])
    assert [record.value for record in committed(topic)] == [b"of another"]


def test_a_partition_whose_leader_is_being_elected_is_asked_again() -> None:
    from confluent_kafka import KafkaError, KafkaException

    answers: list[int] = [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION]

    def ask() -> str:
        if answers:
            raise KafkaException(KafkaError(answers.pop()))
        return "there"

    assert asked(ask, "a partition") == "there"
    answers.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(StorageError, match="could not be made to ask for a partition"):
        asked(ask, "a partition")


def test_a_sink_whose_commits_are_gone_is_an_error_after_one_commit_and_nothing_is_published_again(
    tmp_path: Path,
) -> None:
    topic, folder = new_topic(1), tmp_path / "checkpoint"

    def run(commits: str) -> None:
        flow = ps.Dataflow("rows")
        flow.output("n", flow.stream_input("rows", "x long"))
        sink = ps.io.KafkaSink(address(), topic, commits=commits)
        _run(flow, folder, sink, rows=[pa.record_batch({"x": list(range(20))})])

    run(f"commits-{topic}")
    run(f"commits-{topic}")
    with pytest.raises(RecoveryError, match="published up to epoch 0, but the output has no commit"):
        run(f"emptied-{topic}")
    assert len(list(committed(topic))) == 20


def test_commits_that_are_gone_before_the_journal_has_the_first_publication_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, folder = new_topic(1), tmp_path / "checkpoint"

    def run(commits: str) -> None:
        flow = ps.Dataflow("rows")
        flow.output("n", flow.stream_input("rows", "x long"))
        sink = ps.io.KafkaSink(address(), topic, commits=commits)
        options = ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=0))
        _run(flow, folder, sink, options=options, rows=[pa.record_batch({"x": list(range(20))})])

    def die(*_: object) -> None:
        raise ps.errors.PointstampError("died here")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note_published", die)
        with pytest.raises(ps.errors.PointstampError, match="died here"):
            run(f"commits-{topic}")
    with pytest.raises(RecoveryError, match="begun to publish, but the output has no commit of this query"):
        run(f"emptied-{topic}")
    run(f"commits-{topic}")  # with its marks it resumes
    assert len(list(committed(topic))) == 20
