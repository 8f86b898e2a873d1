"""What the contract of sinks is run over: each sink, a way to make it die at any step, and its reader."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Producer
from deltalake import DeltaTable

from pointstamp.errors import FlowError
from pointstamp.sinks.delta import DeltaSink
from pointstamp.sinks.kafka.sink import KafkaSink
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.port import Sink
from pointstamp.sinks.reading import read_published
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Content
from sinks.sqlite_sink import SqliteSink
from support.kafka_broker import address, committed, new_topic

SCHEMAS = {"counts": pa.schema([("x", pa.int64())]), "_other names": pa.schema([("x", pa.int64())])}
Seen = dict[str, list[tuple[int, int]]]


class Died(BaseException):
    """The process is gone: nothing that it would have done afterwards is done."""


@dataclass
class Steps:
    """Counts the steps that reach the outside; before step number ``dies_before`` the process dies."""

    dies_before: int | None = None
    taken: int = 0
    is_dead: bool = False

    def take(self) -> None:
        if self.is_dead or self.taken == self.dies_before:
            self.is_dead = True
            raise Died
        self.taken += 1


@dataclass
class SteppingStorage:
    """A local storage that may die before each of its operations."""

    root: str
    steps: Steps

    def __post_init__(self) -> None:
        self._inner = LocalStorage(self.root)
        self.address = self._inner.address

    def create(self, name: str, content: Content) -> None:
        self.steps.take()
        self._inner.create(name, content)

    def write(self, name: str, content: Content) -> None:
        self.steps.take()
        self._inner.write(name, content)

    def sync(self, name: str) -> None:
        self.steps.take()
        self._inner.sync(name)

    def read(self, name: str) -> bytes:
        self.steps.take()
        return self._inner.read(name)

    def size(self, name: str) -> int | None:
        self.steps.take()
        return self._inner.size(name)

    def list(self, prefix: str = "") -> list[str]:
        self.steps.take()
        return self._inner.list(prefix)

    def delete(self, name: str) -> None:
        self.steps.take()
        self._inner.delete(name)


class Subject(Protocol):
    """A kind of sink under test, at one place."""

    def sink(self, steps: Steps) -> Sink:
        """The sink as one process has it."""
        ...

    def seen(self) -> Seen:
        """What a reader sees: of each output the pairs of epoch and x, sorted."""
        ...


@dataclass
class Parquet:
    path: Path
    partition_by: Sequence[str] = ()

    def sink(self, steps: Steps) -> Sink:
        sink = ParquetSink(
            str(self.path), lambda path: SteppingStorage(path, steps), partition_by=self.partition_by
        )
        return sink.for_query("q", SCHEMAS)

    def seen(self) -> Seen:
        try:
            return {name: pairs(table) for name, table in read_published(str(self.path)).items()}
        except FlowError:  # nothing has been published
            return {name: [] for name in SCHEMAS}


@dataclass
class Delta:
    path: Path

    def sink(self, steps: Steps) -> Sink:
        sink = DeltaSink(str(self.path), open_storage=lambda path: SteppingStorage(path, steps))
        return sink.for_query("q", SCHEMAS)

    def seen(self) -> Seen:
        places = {"counts": "counts", "_other names": "+5Fother+20names"}
        return {
            name: pairs(DeltaTable(self.path / place).to_pyarrow_table())
            if DeltaTable.is_deltatable(str(self.path / place))
            else []
            for name, place in places.items()
        }


@dataclass
class Sqlite:
    path: Path

    def sink(self, steps: Steps) -> Sink:
        class Stepping(sqlite3.Connection):
            def execute(self, *args: Any) -> sqlite3.Cursor:  # noqa: ANN401 - passed on
                steps.take()
                return super().execute(*args)

        def connect(path: str) -> sqlite3.Connection:
            connection = sqlite3.connect(path, factory=Stepping)
            # The deaths here are the process's, not the machine's, and a disk takes its time.
            connection.executescript("PRAGMA synchronous = OFF")
            return connection

        self.path.mkdir(exist_ok=True)
        return SqliteSink(str(self.path / "db"), connect)

    def seen(self) -> Seen:
        found: Seen = {name: [] for name in SCHEMAS}
        self.path.mkdir(exist_ok=True)
        db = sqlite3.connect(self.path / "db")
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'published'").fetchone():
            for token, epoch, row in db.execute("SELECT * FROM published ORDER BY epoch, row"):
                found[token.partition("/")[0]].append((epoch, json.loads(row.replace("'", '"'))["x"]))
        db.close()
        return {name: sorted(rows) for name, rows in found.items()}


@dataclass
class Kafka:
    """Topics of a real broker, as a reader of committed records sees them."""

    path: Path

    def __post_init__(self) -> None:
        self.topics = {name: new_topic(2) for name in SCHEMAS}
        self.query = self.topics["counts"]

    def sink(self, steps: Steps) -> Sink:
        staging = SteppingStorage(str(self.path), steps)
        sink = KafkaSink(address(), self.topics, epoch="epoch", key="x", staging=staging)
        return sink.for_query(self.query, SCHEMAS)

    def seen(self) -> Seen:
        found = {
            name: [json.loads(record.value) for record in committed(t)] for name, t in self.topics.items()
        }
        return {name: sorted((row["epoch"], row["x"]) for row in rows) for name, rows in found.items()}


@contextmanager
def kafka_steps(steps: Steps) -> Iterator[None]:
    """What a producer does are steps, too: the process may die before each, and right after a commit."""

    class Stepping(Producer):  # type: ignore[misc]  # its types are not read
        def init_transactions(self, *args: Any) -> None:  # noqa: ANN401 - passed on
            steps.take()
            super().init_transactions(*args)

        def begin_transaction(self) -> None:
            steps.take()
            super().begin_transaction()

        def produce(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as above
            steps.take()
            super().produce(*args, **options)

        def commit_transaction(self, *args: Any) -> None:  # noqa: ANN401 - as above
            steps.take()
            super().flush()  # what was sent is there, and not committed
            steps.take()
            super().commit_transaction(*args)
            steps.take()

    with mock.patch.object(confluent_kafka, "Producer", Stepping):
        yield


@contextmanager
def delta_steps(steps: Steps) -> Iterator[None]:
    """Deltalake's own changes are steps, too: the process may die before each, or right after the last."""
    create, write = DeltaTable.create, DeltaTable.create_write_transaction

    def stepping_create(*args: Any, **options: Any) -> DeltaTable:  # noqa: ANN401 - passed on
        steps.take()
        return create(*args, **options)

    def stepping_write(self: DeltaTable, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as above
        steps.take()
        write(self, *args, **options)
        steps.take()

    with (
        mock.patch.object(DeltaTable, "create", stepping_create),
        mock.patch.object(DeltaTable, "create_write_transaction", stepping_write),
    ):
        yield


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "parquet": Parquet,
    "partitioned": partial(Parquet, partition_by=["x"]),
    "delta": Delta,
    "sqlite": Sqlite,
    "kafka": Kafka,
}


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["epoch"].to_pylist(), table["x"].to_pylist(), strict=True))


def batches(*numbers: int) -> Sequence[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array(numbers, pa.int64())})]
