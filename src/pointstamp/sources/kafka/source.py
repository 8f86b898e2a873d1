"""Kafka topics as a source: ``kafka(bootstrap, topics)``; needs ``confluent-kafka``.

Workers read the partitions themselves, and the driver finds how far they go. A unit is a range of offsets of
each partition that has new records, so whoever reads it again reads the same records. Only committed records
are read. What retention or compaction has removed cannot be read again: records must stay for as long as a
query may stand still.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, get_args

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.sinks.kafka.cluster import Cluster, check_installed, offsets_since
from pointstamp.sources.bad_records import BadRecords
from pointstamp.sources.kafka import ranges
from pointstamp.sources.kafka.columns import KafkaFormat, OnBad, RecordColumns
from pointstamp.sources.kafka.fetching import OnLost, fetched
from pointstamp.sources.kafka.protobuf import protobuf_decoder
from pointstamp.sources.kafka.ranges import Place, range_of
from pointstamp.sources.kafka.watch import EARLIEST, LATEST, KafkaWatch
from pointstamp.sources.limits import check_bytes_per_tick, share_of_bytes
from pointstamp.sources.once import AllAtOnce
from pointstamp.sources.port import Part, Position, SourceBase, Unit, Watch
from pointstamp.sources.provenance import Identity, options_of

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

ROWS_PER_TICK: Final = 10_000
_LOOK_EVERY_SECONDS: Final = 0.1
_GATHER_SECONDS: Final = 0.005
_log = logging.getLogger("pointstamp.query")
_skipped: dict[str, int] = {}  # by part, until whoever has read it asks


def kafka(
    bootstrap: str,
    topics: str | Iterable[str] = (),
    *,
    pattern: str | None = None,
    format: KafkaFormat = "json",  # noqa: A002  Spark's word for it
    registry: str | Mapping[int, Any] | None = None,
    message: str | None = None,
    descriptors: str | PathLike[str] | bytes | None = None,
    key: str | Sequence[str] = (),
    columns: Mapping[str, str] | Sequence[str] = (),
    starting: str | int | datetime = EARLIEST,
    on_bad: OnBad | BadRecords = "error",
    on_lost: OnLost = "error",
    skip: Collection[str] = (),
    rows_per_tick: int | None = ROWS_PER_TICK,
    bytes_per_tick: int | None = None,
    gather_seconds: float = _GATHER_SECONDS,
    look_every_seconds: float = _LOOK_EVERY_SECONDS,
    topics_every_seconds: float = 10.0,
    options: Mapping[str, Any] | None = None,
    moved_from: str | None = None,
) -> "KafkaSource":
    """The records of topics, those there and those to come, each read exactly once.

    - ``topics``: one or several; or ``pattern``, a regular expression for whole names, which also finds
      topics that are made later. Partitions that are added are found, too.
    - ``format``: what values are: ``"json"``, objects whose fields are the input's columns; ``"raw"``, which
      are not looked at; ``"avro"`` and ``"json_schema"`` in the wire format of a registry. ``registry`` is
      the address of that, or schemas of Avro by their numbers. ``"protobuf"``, and ``"protobuf_schema"`` in
      that wire format: ``message`` is the full name of the messages, and ``descriptors`` the file, or its
      content, that ``protoc --include_imports --descriptor_set_out`` has written.
    - ``key``: the columns that are in a record's key.
    - ``columns``: columns for what else is known of a record, by name: ``{"at": "timestamp"}``, or a list of
      names, of key, value, headers, timestamp, topic, partition, offset, tombstone and error.
    - ``starting``: where a new query begins: ``"earliest"``, ``"latest"``, or with the records since a time,
      a datetime or milliseconds since 1970.
    - ``on_bad``: what becomes of records that cannot be decoded: an ``"error"``; ``"skip"`` (or ``"drop"``),
      counted in a warning and in ``query.last_progress["rowsSkipped"]``; ``ps.io.BadRecords(path)``, which
      counts them likewise and writes them to a folder; or ``"keep"``, with nulls and the reason in the column
      that is the error. It may be changed when a query is restarted, but for ``"keep"``.
    - ``on_lost``: whether records that are needed and were removed are an ``"error"``, or to ``"skip"``.
    - ``skip``: records that are left out, as ``"topic/partition/offset"``, and counted like those that cannot
      be decoded. It may be changed when a query is restarted, also for a record that ended the query.
    - ``rows_per_tick``: how many records one epoch takes at most; None takes all that are there.
    - ``bytes_per_tick``: how many bytes of keys and values one epoch takes at most, about, by the size that
      the last records have on average.
    - ``gather_seconds``: how long to wait for more after the first new record, while more come and unless
      there are as many.
    - ``look_every_seconds``: how often Kafka is asked at least how far its partitions go; new records are
      mostly found at once. ``topics_every_seconds``: how often for new topics and partitions.
    - ``options``: settings of librdkafka's, such as those of TLS and SASL.
    - ``moved_from``: the ``bootstrap`` of before, if the same topics are at other servers now. Without it,
      one server must be the same.

    >>> kafka("broker:9092", "orders").describe()
    "topic 'orders' of Kafka at 'broker:9092'"
    """
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    who = f"kafka {redact(bootstrap)!r}"
    if bool(names) == (pattern is not None):
        raise FlowError(f"{who}: expected either topic names or pattern=. Give exactly one of them.")
    _check_choice(who, "format", format, get_args(KafkaFormat))
    if not isinstance(on_bad, BadRecords):
        _check_choice(who, "on_bad", on_bad, get_args(OnBad))
    _check_choice(who, "on_lost", on_lost, get_args(OnLost))
    if rows_per_tick is not None and rows_per_tick < 1:
        raise FlowError(
            f"{who}: rows_per_tick must be at least 1, got {rows_per_tick}. Give a larger number, or None "
            "for all."
        )
    check_bytes_per_tick(who, bytes_per_tick)
    known = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    keys = (key,) if isinstance(key, str) else tuple(key)
    protobuf = protobuf_decoder(who, format, message, descriptors)
    made = RecordColumns(format, registry, keys, known, "skip" if on_bad == "drop" else on_bad, protobuf)
    made.check(who)
    return KafkaSource(
        Cluster(bootstrap, dict(options or {})),
        names,
        pattern,
        made,
        _starting(who, starting),
        on_lost,
        rows_per_tick,
        gather_seconds,
        look_every_seconds,
        topics_every_seconds,
        bytes_per_tick,
        moved_from=moved_from,
        skip=_named_records(who, skip),
    )


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSource(SourceBase, RedactedRepr):
    """A source of records; made by ``kafka``."""

    cluster: Cluster
    topics: tuple[str, ...]
    pattern: str | None
    columns: RecordColumns
    starting: str | int
    on_lost: OnLost
    rows_per_tick: int | None
    gather_seconds: float
    look_every_seconds: float
    topics_every_seconds: float
    bytes_per_tick: int | None = None
    units_per_tick: int | None = None
    moved_from: str | None = None
    skip: frozenset[tuple[Place, int]] = frozenset()

    def check(self) -> None:
        """Raise FlowError if what is needed is not installed."""
        check_installed()

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the records after a position, those there and those to come."""
        watch = KafkaWatch(self, position)
        if not available_now:
            return watch
        try:
            return AllAtOnce(watch.available_now())
        finally:
            watch.close()

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The records of a range of offsets, as rows with the columns of the schema."""
        wanted = range_of(part)
        who = self.who(wanted.place)
        skipped = 0
        for fetch in fetched(self.cluster, wanted, who, self.on_lost):
            messages = self._taken(fetch, wanted.place)
            rows, left_out = self.columns.rows(messages, schema, who)
            skipped += len(fetch) - len(messages) + left_out
            if rows.num_rows:
                yield rows
        if skipped:
            _skipped[part.locator] = skipped
            _log.warning(
                "%s: from offset %s to %s, %s records could not be decoded%s and were skipped.",
                who,
                wanted.start,
                wanted.stop - 1,
                skipped,
                " or are named in skip=" if self.skip else "",
            )

    def _taken(self, fetch: Sequence["Message"], place: Place) -> Sequence["Message"]:
        """The records that are not to be left out."""
        if not self.skip:
            return fetch
        return [message for message in fetch if (place, message.offset()) not in self.skip]

    def skipped(self, part: Part) -> int:
        """Return the number of skipped records of a part that was read."""
        return _skipped.pop(part.locator, 0)

    def after(self, position: Position, unit: Unit) -> dict[str, list[int]]:
        """The next offset of each partition, by topic."""
        return ranges.after(position, unit)

    def units_named(self, position: Position, names: Iterable[str]) -> list[Unit]:
        """The units of these names: what is found again would be other ranges."""
        return ranges.units_named(position, names)

    def lanes(self, position: Position) -> list[int]:
        """The lanes of the partitions that were taken from."""
        return [ranges.lane_of(place) for place in ranges.offsets_in(position)]

    def share_of_tick(self, unit: Unit) -> float:
        """Return the share of one tick that a unit takes."""
        by_rows = 0.0 if self.rows_per_tick is None else ranges.records_in(unit) / self.rows_per_tick
        return max(by_rows, share_of_bytes(unit, self.bytes_per_tick))

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        # The registry and the descriptors may be newer; a time to start at is often computed.
        options = options_of(self, "cluster", "starting", "registry", "protobuf")
        started = self.starting if isinstance(self.starting, str) else "at a time"
        return {"kind": "Kafka", "servers": self.cluster.bootstrap, **options, "starting": started}

    def describe(self) -> str:
        """A description for messages."""
        if self.pattern is not None:
            return f"topics that match '{self.pattern}' of {self.cluster}"
        names = ", ".join(f"'{name}'" for name in self.topics)
        return f"topic{'s' if len(self.topics) > 1 else ''} {names} of {self.cluster}"

    def who(self, place: Place) -> str:
        """A partition, for messages."""
        return f"topic '{place[0]}', partition {place[1]} of {self.cluster}"

    def starting_offsets(
        self,
        admin: "AdminClient",
        places: Sequence[Place],
        firsts: Mapping[Place, int],
        ends: Mapping[Place, int],
    ) -> dict[Place, int]:
        """Return where a new query starts to read each partition."""
        if isinstance(self.starting, str):
            return {place: (firsts if self.starting == EARLIEST else ends)[place] for place in places}
        # There may be no record since then, or one that is not committed yet.
        found = offsets_since(admin, places, self.starting)
        return {
            place: ends[place] if (offset := found[place]) is None else min(offset, ends[place])
            for place in places
        }


def _starting(who: str, given: str | int | datetime) -> str | int:
    if isinstance(given, datetime):
        return int(given.timestamp() * 1000)
    if isinstance(given, str) and given not in (EARLIEST, LATEST):
        raise FlowError(
            f"{who}: starting must be 'earliest', 'latest', a datetime or milliseconds since 1970, got "
            f"{given!r}. Give one of these."
        )
    return given


def _named_records(who: str, names: Collection[str]) -> frozenset[tuple[Place, int]]:
    if isinstance(names, str):
        raise FlowError(f"{who}: skip must be a list of records, got {names!r}. Write skip=[{names!r}].")
    found = set()
    for name in names:
        match = re.fullmatch(r"([^/]+)/(\d+)/(\d+)", name)
        if match is None:
            raise FlowError(
                f"{who}: skip must name records as 'topic/partition/offset', got {name!r}. Write for example "
                "skip=['orders/0/17']."
            )
        found.add(((match[1], int(match[2])), int(match[3])))
    return frozenset(found)


def _check_choice(who: str, what: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise FlowError(
            f"{who}: {what} must be one of {', '.join(choices)}, got {given!r}. Choose one of these."
        )
