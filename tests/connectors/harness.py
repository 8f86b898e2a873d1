"""What the contract of sinks is run over: each sink, a way to make it die at any step, and its reader."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Producer
from deltalake import DeltaTable

from connectors.sqlite_sink import SqliteSink
from pointstamp.connectors.delta.sink import DeltaSink
from pointstamp.connectors.kafka.sink import KafkaSink
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Sink, Staged
from pointstamp.errors import FlowError
from pointstamp.storage.local import LocalStorage
from pointstamp.testing import SINK_SCHEMAS, SeenRows, SinkSubject, SteppingStorage, Steps
from support.kafka_broker import address, committed, new_topic

SCHEMAS = SINK_SCHEMAS


def stepping(path: str, steps: Steps) -> SteppingStorage:
    return SteppingStorage(LocalStorage(path), steps)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@dataclass
class Parquet:
    path: Path
    partition_by: Sequence[str] = ()

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
        yield ParquetSink(str(self.path), lambda path: stepping(path, steps), partition_by=self.partition_by)

    def seen(self) -> SeenRows:
        try:
            return {name: pairs(table) for name, table in read_changes(str(self.path)).items()}
        except FlowError:  # nothing has been published
            return {name: [] for name in SCHEMAS}

    def stored(self) -> object:
        return files_below(self.path)

    def is_stored(self, piece: Staged) -> bool:
        return (self.path / piece.path).exists()


@dataclass
class Delta:
    path: Path

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
        with delta_steps(steps):
            yield DeltaSink(str(self.path), open_storage=lambda path: stepping(path, steps))

    def seen(self) -> SeenRows:
        places = {"counts": "counts", "_other names": "+5Fother+20names"}
        return {
            name: pairs(DeltaTable(self.path / place).to_pyarrow_table())
            if DeltaTable.is_deltatable(str(self.path / place))
            else []
            for name, place in places.items()
        }

    def stored(self) -> object:
        return files_below(self.path)

    def is_stored(self, piece: Staged) -> bool:
        return (self.path / piece.path).exists()


@dataclass
class Sqlite:
    path: Path
    kind: type[SqliteSink] = SqliteSink

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
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
        yield self.kind(str(self.path / "db"), connect)

    def seen(self) -> SeenRows:
        found: SeenRows = {name: [] for name in SCHEMAS}
        for token, epoch, row in self._rows("published"):
            found[token.partition("/")[0]].append((epoch, json.loads(row.replace("'", '"'))["x"]))
        return {name: sorted(rows) for name, rows in found.items()}

    def stored(self) -> object:
        return [self._rows(table) for table in ("staged", "published", "commits")]

    def is_stored(self, piece: Staged) -> bool:
        return piece.path in [row[0] for row in self._rows("staged")]

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        self.path.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self.path / "db")) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone():
                return []
            return db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608 - ours


@dataclass
class Kafka:
    """Topics of a real broker, as a reader of committed records sees them."""

    path: Path

    def __post_init__(self) -> None:
        self.topics = {name: new_topic(2) for name in SCHEMAS}

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
        staging, commits = stepping(str(self.path), steps), f"commits-{self.topics['counts']}"
        with kafka_steps(steps):
            yield KafkaSink(address(), self.topics, epoch="epoch", key="x", staging=staging, commits=commits)

    def seen(self) -> SeenRows:
        found = {
            name: [json.loads(record.value) for record in committed(t)] for name, t in self.topics.items()
        }
        return {name: sorted((row["epoch"], row["x"]) for row in rows) for name, rows in found.items()}

    def stored(self) -> object:
        return files_below(self.path), self.seen()

    def is_stored(self, piece: Staged) -> bool:
        return (self.path / piece.path).exists()


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


SUBJECTS: dict[str, Callable[[Path], SinkSubject]] = {
    "parquet": Parquet,
    "partitioned": partial(Parquet, partition_by=["x"]),
    "delta": Delta,
    "sqlite": Sqlite,
}


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["epoch"].to_pylist(), table["x"].to_pylist(), strict=True))


def batches(*numbers: int) -> Sequence[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array(numbers, pa.int64())})]
