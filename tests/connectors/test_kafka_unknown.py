"""Offsets that Kafka does not know: the answer -1001 is asked again, and is never an offset.

The clients of these tests answer as a broker does that has just started; no broker is needed.
"""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

import pointstamp as ps
from pointstamp.connectors.kafka import cluster, offset_ranges, sink
from pointstamp.connectors.kafka.cluster import Cluster, ends_of, offsets_since
from pointstamp.connectors.kafka.offset_ranges import PartitionConsumer
from pointstamp.connectors.kafka.sink import CommitNote
from pointstamp.connectors.kafka.source import KafkaWatch
from pointstamp.errors import StorageError

UNKNOWN = -1001


class Admin:
    """Answers questions for offsets, one after the other; the last answer again and again."""

    def __init__(self, *answers: int | KafkaException) -> None:
        self.answers = list(answers)
        self.asked = 0

    def list_offsets(self, wanted: dict[Any, Any], **_: object) -> dict[Any, Any]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {place: _done(answer) for place in wanted}

    def list_topics(self, timeout: float) -> object:
        del timeout
        topic = SimpleNamespace(partitions={0: None}, error=None)
        return SimpleNamespace(topics={"t": topic})


def _done(answer: int | KafkaException) -> Future[object]:
    future: Future[object] = Future()
    if isinstance(answer, KafkaException):
        future.set_exception(answer)
    else:
        future.set_result(SimpleNamespace(offset=answer))
    return future


def _admin(*answers: int | KafkaException) -> Any:  # noqa: ANN401 - in the place of a client of confluent-kafka
    return Admin(*answers)


def test_an_unknown_end_is_asked_for_again() -> None:
    admin = _admin(UNKNOWN, UNKNOWN, 20)
    assert ends_of(admin, [("t", 0)]) == {("t", 0): 20}
    assert admin.asked == 3


PASSING = (
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_NOENT"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    *("UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"),
)


@pytest.mark.parametrize("name", PASSING)
def test_what_a_broker_answers_while_it_starts_is_asked_again(name: str) -> None:
    error = KafkaException(KafkaError(getattr(KafkaError, name)))
    assert ends_of(_admin(error, error, 20), [("t", 0)]) == {("t", 0): 20}


def test_an_answer_that_will_not_change_is_an_error_at_once() -> None:
    error = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    admin = _admin(error)
    with pytest.raises(StorageError, match=r"Kafka could not be made to ask for the offsets"):
        ends_of(admin, [("t", 0)])
    assert admin.asked == 1


def test_an_end_that_stays_unknown_is_an_error_that_says_what_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS_MAX", 0.0)
    with pytest.raises(
        StorageError, match=r"partition 0 is unknown \(the answer is -1001\)\. Check that .* lead"
    ):
        ends_of(_admin(UNKNOWN), [("t", 0)])


def test_a_time_without_records_is_told_from_an_unknown_offset() -> None:
    assert offsets_since(_admin(UNKNOWN, -1), [("t", 0)], 5) == {("t", 0): None}
    assert offsets_since(_admin(UNKNOWN, 7), [("t", 0)], 5) == {("t", 0): 7}


def test_the_last_commit_is_not_missed_where_the_end_of_its_topic_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = CommitNote(0, 9, ("digest",))
    records = [(b"q", sink.encoded(note))]
    monkeypatch.setattr(Cluster, "admin", lambda self: _admin(UNKNOWN, 1))
    monkeypatch.setattr(sink, "_records", lambda cluster, topic, end: records[:end] if end > 0 else [])
    assert sink.last_commit(Cluster("h:1"), "t", "q") == note


@pytest.mark.parametrize("on_lost", ["error", "skip"])
def test_a_source_neither_fails_nor_reads_again_where_an_end_is_unknown(
    on_lost: Any,  # noqa: ANN401 - one of two words
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cluster, "admin", lambda self: _admin(0, UNKNOWN, 2_500))
    watch = KafkaWatch(ps.io.kafka("h:1", "t", on_lost=on_lost), {"t": [2_000]})
    units = watch.available_now()
    watch.close()
    assert [(part.locator, part.size_bytes > 0) for unit in units for part in unit.parts] == [
        ('["t",0,2000,2500]', True)
    ]


def test_records_are_not_lost_where_the_broker_did_not_know_them_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    starting = KafkaException(KafkaError(KafkaError._TRANSPORT))
    consumer = _Consumer([starting, (UNKNOWN, UNKNOWN), (0, 10)])
    monkeypatch.setattr("confluent_kafka.Consumer", lambda settings: consumer)
    monkeypatch.setattr(offset_ranges, "_POLL_SECONDS", 0.0)
    reader = PartitionConsumer(Cluster("h:1"), "t", 0)
    for messages in reader.records(3, 5, "topic 't'", "error"):
        found += [message.offset() or 0 for message in messages]
    assert found == [3, 4]


class _Consumer:
    """A consumer whose broker rejects the first position as out of range, and has the records later."""

    def __init__(self, watermarks: list[tuple[int, int] | KafkaException]) -> None:
        self.watermarks = watermarks
        self.assigned = 0
        self.ahead: list[object] = []

    def assign(self, places: list[Any]) -> None:
        self.assigned += 1
        start = places[0].offset
        self.ahead = [_message(None)] if self.assigned == 1 else [_message(start), _message(start + 1)]

    def poll(self, seconds: float) -> object:
        del seconds
        return self.ahead.pop(0) if self.ahead else None

    def consume(self, count: int, seconds: float) -> list[object]:
        del count, seconds
        return []

    def get_watermark_offsets(self, place: object, seconds: float) -> tuple[int, int]:
        del place, seconds
        found = self.watermarks.pop(0)
        if isinstance(found, KafkaException):
            raise found
        return found

    def close(self) -> None:
        """Nothing is open."""


def _message(offset: int | None) -> object:
    from confluent_kafka import KafkaError

    error = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE) if offset is None else None
    return SimpleNamespace(error=lambda: error, offset=lambda: offset)


def test_a_sink_that_does_not_know_its_last_commit_does_not_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS_MAX", 0.0)
    monkeypatch.setattr(Cluster, "admin", lambda self: _admin(UNKNOWN))
    monkeypatch.setattr(
        "confluent_kafka.Producer", lambda settings: SimpleNamespace(init_transactions=lambda seconds: None)
    )
    sink = ps.io.KafkaSink("h:1", "t", staging="memory://unknown", commits="t").for_query(
        "q", {"n": pa.schema([("x", "int64")])}
    )
    publisher = sink.publisher()
    with pytest.raises(StorageError, match="is unknown"):
        publisher.published_through()
    with pytest.raises(StorageError, match="is unknown"):
        publisher.publish(0, 0, [])
