"""A Kafka cluster: its address, settings and errors.

All clients of Kafka have their settings from here; confluent-kafka is imported when that happens.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pointstamp.errors import FlowError, StorageError
from pointstamp.redaction import RedactedRepr, redact

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ANSWER_SECONDS_MAX: Final = 60.0
"""Timeout of one request to Kafka."""
_TRY_SECONDS_MAX: Final = 5.0
"""After so long it is asked again, since a request for a leader that is not there yet only waits."""
_PAUSE_SECONDS: Final = 0.05
_NO_RECORD: Final = -1
"""The answer for a partition without a record since the time that was asked for."""
_log = logging.getLogger("pointstamp.kafka")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(RedactedRepr):
    """A Kafka cluster; ``options`` are librdkafka settings, such as those of TLS and SASL."""

    bootstrap: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # it may hold passwords

    def settings(self, **own: object) -> dict[str, Any]:
        """The settings of a client; underscores in names stand for dots, and the user's go first."""
        check_installed()
        named = {name.replace("_", "."): value for name, value in own.items()}
        return {**named, "logger": _log, "bootstrap.servers": self.bootstrap, **self.options}

    def reader_settings(self, **own: object) -> dict[str, Any]:
        """Return the settings of a read-committed consumer that stores no offsets."""
        return self.settings(
            group_id="pointstamp",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            **own,
        )

    def admin(self) -> "AdminClient":
        """A client that asks for topics and offsets."""
        settings = self.settings()
        from confluent_kafka.admin import AdminClient

        return AdminClient(settings)

    def __str__(self) -> str:
        return f"Kafka at '{redact(self.bootstrap)}'"


class UnknownOffset(Exception):  # noqa: N818 - an answer as much as an error
    """Kafka has answered that it does not know an offset; not an offset, and not the end of a partition."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"the offset of topic '{topic}', partition {partition} is unknown (the answer is {offset}). "
            "Check that the partition has a leader (kafka-topics.sh --describe)"
        )


def check_installed() -> None:
    """FlowError where confluent-kafka is not installed."""
    try:
        import confluent_kafka  # noqa: F401 - whether it is there
    except ImportError as error:
        raise FlowError(
            "Kafka topics need the package confluent-kafka on the driver and on all workers, which is "
            "not installed. Install pointstamp[kafka]."
        ) from error


def partitions_of(admin: "AdminClient", topics: Iterable[str]) -> dict[str, list[int]]:
    """Return the partitions of the existing topics; StorageError if Kafka does not answer."""
    found = asked(lambda: admin.list_topics(timeout=ANSWER_SECONDS_MAX), "the list of topics")
    return {
        name: sorted(found.topics[name].partitions)
        for name in topics
        if name in found.topics and not found.topics[name].error
    }


def ends_of(
    admin: "AdminClient",
    places: Iterable[tuple[str, int]],
    *,
    is_first: bool = False,
    is_committed: bool = True,
) -> dict[tuple[str, int], int]:
    """The offset after the last record of each partition, or the first offset that is still there.

    With ``is_committed`` the end is the last one before which every transaction has come to its end.
    """
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    spec = OffsetSpec.earliest() if is_first else OffsetSpec.latest()
    level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    return _offsets(admin, places, spec, 0, isolation_level=level)


def offsets_since(
    admin: "AdminClient", places: Iterable[tuple[str, int]], milliseconds: int
) -> dict[tuple[str, int], int | None]:
    """The offset of the first record of each partition since a time; None where there is no such record."""
    from confluent_kafka.admin import OffsetSpec

    found = _offsets(admin, places, OffsetSpec.for_timestamp(milliseconds), _NO_RECORD)
    return {place: None if offset == _NO_RECORD else offset for place, offset in found.items()}


def _offsets(
    admin: "AdminClient",
    places: Iterable[tuple[str, int]],
    spec: Any,  # noqa: ANN401 - an OffsetSpec
    least: int,
    **options: Any,  # noqa: ANN401 - as list_offsets takes them
) -> dict[tuple[str, int], int]:
    """Offsets as Kafka lists them; one below ``least`` means that Kafka does not know it: it is asked again.

    A broker that has just started answers -1001 for partitions whose leader does not know their end yet.
    """
    from confluent_kafka import TopicPartition

    wanted = {TopicPartition(*place): spec for place in places}
    if not wanted:
        return {}

    def ask() -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(wanted, request_timeout=_TRY_SECONDS_MAX, **options)
        found = {
            (place.topic, place.partition): int(answer.result(ANSWER_SECONDS_MAX).offset)
            for place, answer in answers.items()
        }
        for (topic, partition), offset in found.items():
            if offset < least:
                raise UnknownOffset(topic, partition, offset)
        return found

    return asked(ask, "the offsets of its topics")


def asked(ask: Callable[[], T], what: str) -> T:
    """Return Kafka's answer, asking again while it may yet succeed; StorageError if it cannot."""
    from confluent_kafka import KafkaError, KafkaException

    # A topic that was just made, whose leader is being elected or whose broker starts, is there in a moment.
    soon = (
        *(KafkaError._NOENT, KafkaError._TIMED_OUT),  # noqa: SLF001 - public there
        *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN),  # noqa: SLF001 - as above
        *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
        *(KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE),
        *(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH),
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION),
    )
    deadline = monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            return ask()
        except KafkaException as error:
            may_be_soon = error.args[0].retriable() or error.args[0].code() in soon
            if not may_be_soon or monotonic() + _PAUSE_SECONDS > deadline:
                raise cannot(f"ask for {what}", error) from error
            sleep(_PAUSE_SECONDS)
        except UnknownOffset as error:
            if monotonic() > deadline:
                raise cannot(f"ask for {what}", error) from error
            sleep(_PAUSE_SECONDS)
        except TimeoutError as error:
            raise cannot(f"ask for {what}", error) from error


def cannot(what: str, error: BaseException) -> StorageError:
    """The error that says what could not be done, and why."""
    return StorageError(f"Kafka could not be made to {what}: {error_words(error)}.")


def error_words(error: BaseException) -> str:
    """Return the text of a Kafka error."""
    given = error.args[0] if error.args else error
    text = given.str() if hasattr(given, "str") else str(given)
    return (text or type(error).__name__).rstrip(".")
