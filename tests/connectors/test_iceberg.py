"""Iceberg tables keep the contract of sinks: the public claims, on tables in a catalog of SQLite.

Families:
- the claims: a process dies before any step of its storage and of its catalog;
- two drivers at the same time: pyiceberg would add rows twice, if it could try again;
- refusals: other columns, a table that lets pyiceberg try again, types that Iceberg does not have.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

import pointstamp as ps
from connectors.harness import batches, files_below, pairs, stepping
from pointstamp.connectors.iceberg.sink import IcebergPublisher, IcebergSink, table_name
from pointstamp.connectors.sink import Sink, Staged, complete_publisher
from pointstamp.errors import RecoveryError, SchemaError
from pointstamp.testing import SINK_SCHEMAS, SeenRows, Steps
from pointstamp.testing.sink_claims import SinkClaim

SECONDS_MAX = 180
pytestmark = pytest.mark.long


def properties(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}.db", "warehouse": f"file://{path}"}


@contextmanager
def closing_publishers() -> Iterator[None]:
    """Every publisher that is made meanwhile gives its catalog back at the end."""
    made: list[IcebergPublisher] = []
    begin = IcebergPublisher.__init__

    def noted(self: IcebergPublisher, sink: IcebergSink) -> None:
        begin(self, sink)
        made.append(self)

    with mock.patch.object(IcebergPublisher, "__init__", noted):
        yield
    for each in made:
        each.close()


@dataclass
class Iceberg:
    path: Path
    names: list[str] = field(default_factory=lambda: list(SINK_SCHEMAS))

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
        commit, create = SqlCatalog.commit_table, SqlCatalog.create_table

        def stepping_commit(self: SqlCatalog, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
            steps.take()
            done = commit(self, *args, **options)
            steps.take()
            return done

        def stepping_create(self: SqlCatalog, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
            steps.take()
            return create(self, *args, **options)

        with (
            mock.patch.object(SqlCatalog, "commit_table", stepping_commit),
            mock.patch.object(SqlCatalog, "create_table", stepping_create),
            closing_publishers(),
        ):
            yield IcebergSink(
                str(self.path), properties(self.path), open_storage=lambda path: stepping(path, steps)
            )

    def seen(self) -> SeenRows:
        catalog = SqlCatalog("default", **properties(self.path))
        found: SeenRows = {}
        for name in self.names:
            try:
                table = catalog.load_table(("pointstamp", table_name(name)))
                found[name] = pairs(table.scan().to_arrow())
            except NoSuchTableError:
                found[name] = []
        catalog.close()
        return found

    def stored(self) -> object:
        return files_below(self.path)

    def is_stored(self, piece: Staged) -> bool:
        return (self.path / piece.path).exists()


@pytest.mark.parametrize("claim", ps.testing.SINK_CLAIMS, ids=lambda claim: claim.__name__)
def test_tables_of_iceberg_keep_the_contract(claim: SinkClaim, tmp_path: Path) -> None:
    numbers = count()
    claim(lambda: Iceberg(tmp_path / f"out-{next(numbers)}"))


def test_two_drivers_that_publish_every_commit_at_the_same_time_publish_it_once(tmp_path: Path) -> None:
    subject = Iceberg(tmp_path / "out", ["plain"])
    ready, failed = threading.Barrier(2), list[BaseException]()
    with subject.process(Steps()) as given:
        sink = given.for_query("q", {"plain": pa.schema([("x", pa.int64())])})
        writer = sink.writer(0, 0)
        commits = [writer.stage("plain", {n: batches(n)}) for n in range(6)]
        sink.publisher().publish(0, 0, commits[0])

        def drive() -> None:
            publisher = sink.publisher()
            try:
                for number in range(1, 6):
                    ready.wait(SECONDS_MAX)
                    publisher.publish(number, number, commits[number])
            except BaseException as error:
                failed.append(error)
                ready.abort()

        drivers = [threading.Thread(target=drive) for _ in range(2)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join(SECONDS_MAX)
    assert failed == []
    assert subject.seen() == {"plain": [(n, n) for n in range(6)]}


def test_a_table_with_other_columns_or_with_retries_is_refused(tmp_path: Path) -> None:
    subject = Iceberg(tmp_path / "out")
    with subject.process(Steps()) as given:
        sink = given.for_query("q", SINK_SCHEMAS)
        sink.publisher().publish(0, 0, [])
        assert sink.publisher().published_through() == 0
        other = {**SINK_SCHEMAS, "counts": pa.schema([("x", pa.int32())])}
        with pytest.raises(RecoveryError, match=r"not made for the columns epoch, x .*Nothing was changed"):
            complete_publisher(sink.for_query("q", other).publisher()).check_outputs(["counts"])
        new = {**SINK_SCHEMAS, "new": SINK_SCHEMAS["counts"]}
        with pytest.raises(RecoveryError, match=r"'new' is new.*Nothing was changed"):
            complete_publisher(sink.for_query("q", new).publisher()).check_outputs(list(SINK_SCHEMAS))
        catalog = SqlCatalog("default", **properties(subject.path))
        with catalog.load_table(("pointstamp", "counts")).transaction() as change:
            change.set_properties({"commit.retry.num-retries": "4"})
        catalog.close()
        with pytest.raises(RecoveryError, match=r"a commit may be added twice\. Set it to 0"):
            complete_publisher(sink.publisher()).check_outputs(list(SINK_SCHEMAS))


def test_columns_that_iceberg_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="for which Iceberg has no types"):
        IcebergSink(str(tmp_path), {}).for_query("q", {"a": pa.schema([("x", pa.month_day_nano_interval())])})
