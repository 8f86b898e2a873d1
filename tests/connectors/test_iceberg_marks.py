"""What Iceberg tables say of their commits: of several tables, and after others have changed a table.

Families:
- halves: a driver dies between two tables of a commit, and the next one asks how far all of them are;
- broken publishers, which that family finds;
- marks: another writer overwrites the table, expires its snapshots, or removes its properties.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import pointstamp as ps
from connectors.harness import batches
from connectors.test_iceberg import Iceberg, closing_publishers, properties
from pointstamp.connectors.iceberg.sink import IcebergPublisher, IcebergSink
from pointstamp.connectors.sink import Sink, Staged
from pointstamp.errors import RecoveryError, StorageError
from pointstamp.journal.ledger import Ledger
from pointstamp.testing import SINK_SCHEMAS, Steps
from support.options import with_options

SECONDS_MAX = 60


def _staged(sink: Sink, epoch: int) -> list[Staged]:
    return [
        piece
        for worker, output in enumerate(SINK_SCHEMAS)
        for piece in sink.writer(worker, 0).stage(output, {epoch: batches(epoch)})
    ]


class _Died(BaseException):
    """The driver dies between two tables."""


def _publish_one_table(sink: Sink, number: int, staged: list[Staged]) -> None:
    """Publish a commit into the first of several tables, and die."""
    add = IcebergPublisher._add
    done: list[str] = []

    def dying(self: IcebergPublisher, output: str, *args: object) -> None:
        if done:
            raise _Died
        add(self, output, *args)  # type: ignore[arg-type]  # passed on
        done.append(output)

    with mock.patch.object(IcebergPublisher, "_add", dying), pytest.raises(_Died):
        sink.publisher().publish(number, number, staged)


def _publish_in_halves(subject: Iceberg, publisher_of: Callable[[IcebergSink], IcebergPublisher]) -> None:
    """Two commits, each of which dies between two tables; the next driver asks how far all tables are."""
    with subject.process(Steps()) as given:
        sink = given.for_query("q", SINK_SCHEMAS)
        assert isinstance(sink, IcebergSink)
        for number in range(2):
            staged = _staged(sink, number)
            _publish_one_table(sink, number, staged)
            publisher = publisher_of(sink)
            through = publisher.published_through()
            assert through == (None if number == 0 else 0)
            publisher.discard(1, staged)
            publisher.publish(number, number, staged)
            assert publisher.published_through() == number
    assert subject.seen() == {name: [(0, 0), (1, 1)] for name in SINK_SCHEMAS}


def test_a_commit_that_one_of_several_tables_lacks_is_not_published_yet(tmp_path: Path) -> None:
    _publish_in_halves(Iceberg(tmp_path / "out"), IcebergPublisher)


class OverlooksATable(IcebergPublisher):
    """A table without a commit does not count."""

    def published_through(self) -> int | None:
        reached = [self._last(output)[1] for output in self._sink.schemas]
        return min((each for each in reached if each is not None), default=None)


class TakesTheFurthest(IcebergPublisher):
    """The furthest table counts."""

    def published_through(self) -> int | None:
        reached = [self._last(output)[1] for output in self._sink.schemas]
        return None if None in reached else max(each for each in reached if each is not None)


class DiscardsWhatOneTableHas(IcebergPublisher):
    """What one table has published is discarded for all, kept or not."""

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        del keep
        super().discard(generation, [])


@pytest.mark.parametrize("broken", [OverlooksATable, TakesTheFurthest, DiscardsWhatOneTableHas])
def test_a_broken_publisher_of_several_tables_is_found(
    broken: type[IcebergPublisher], tmp_path: Path
) -> None:
    with pytest.raises((AssertionError, StorageError), match=r"^assert |but is not there"):
        _publish_in_halves(Iceberg(tmp_path / "out"), broken)


def _run(folder: Path, days: int, **settings: Any) -> None:  # noqa: ANN401 - of start
    """Run a query over so many batches, which publishes one commit for each."""
    flow = ps.Dataflow("rows")
    flow.output("n", flow.stream_input("rows", "x long"))
    place = folder / "tables"
    query = flow.start(
        rows=[pa.record_batch({"x": pa.array(range(20), pa.int64())}) for _ in range(days)],
        checkpoint=str(folder / "checkpoint"),
        output=IcebergSink(str(place), properties(place)),
        **with_options(settings),
    )
    try:
        assert query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)


def _overwrite_and_expire(folder: Path) -> None:
    """Another writer replaces all rows of the table, and the snapshots before that are expired."""
    catalog = SqlCatalog("default", **properties(folder / "tables"))
    table = catalog.load_table(("pointstamp", "n"))
    table.overwrite(table.scan().to_arrow())
    now = table.current_snapshot()
    assert now is not None
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots() if each.snapshot_id != now.snapshot_id]
    ).commit()
    catalog.close()


def _remove_marks(folder: Path) -> None:
    catalog = SqlCatalog("default", **properties(folder / "tables"))
    table = catalog.load_table(("pointstamp", "n"))
    with table.transaction() as change:
        change.remove_properties(*[key for key in table.properties if key.startswith("pointstamp.commit.")])
    catalog.close()


def _count(folder: Path) -> int:
    catalog = SqlCatalog("default", **properties(folder / "tables"))
    rows = int(catalog.load_table(("pointstamp", "n")).scan().to_arrow().num_rows)
    catalog.close()
    return rows


@pytest.mark.parametrize("days", [1, 2])
def test_nothing_is_published_again_after_another_writer_overwrote_the_table(
    days: int, tmp_path: Path
) -> None:
    with closing_publishers():
        _run(tmp_path, days)
        _overwrite_and_expire(tmp_path)
        _run(tmp_path, days)
        assert _count(tmp_path) == 20 * days
        _run(tmp_path, days + 1)
    assert _count(tmp_path) == 20 * (days + 1)


def test_a_table_that_lost_its_marks_is_an_error_after_one_commit(tmp_path: Path) -> None:
    with closing_publishers():
        _run(tmp_path, 1)
        _overwrite_and_expire(tmp_path)
        _remove_marks(tmp_path)
        with pytest.raises(RecoveryError, match=r"published up to epoch 0, but the output has no commit"):
            _run(tmp_path, 1)
    assert _count(tmp_path) == 20


def test_marks_that_are_lost_before_the_first_publication_is_in_the_journal_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise ps.errors.PointstampError("died here")

    with closing_publishers():
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "note_published", die)
            with pytest.raises(ps.errors.PointstampError, match="died here"):
                _run(tmp_path, 1, restarts=ps.RestartPolicy(restarts_max=0))
        _overwrite_and_expire(tmp_path)
        _remove_marks(tmp_path)
        with pytest.raises(RecoveryError, match="has begun to publish, but the output has no commit"):
            _run(tmp_path, 1)
    assert _count(tmp_path) == 20


def test_a_late_beginning_changes_no_mark(tmp_path: Path) -> None:
    with closing_publishers(), Iceberg(tmp_path / "out").process(Steps()) as given:
        sink = given.for_query("q", SINK_SCHEMAS)
        sink.publisher().publish(0, 0, _staged(sink, 0))
        late = sink.publisher()
        assert isinstance(late, IcebergPublisher)
        late.begin()
        assert late.published_through() == 0
