"""Iceberg tables that hold the rows of a table: what a plain reader of Iceberg sees is the table, always.

Families, and what only each can find:
- random changes beside a counter, by drivers that come and go: rows that are lost, doubled or come back;
- deaths before any step of a publication: commits that are applied twice, or half;
- races: another writer between reading the table and the commit;
- a query at work, and tables of other queries.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

import pointstamp as ps
from connectors.harness import stepping
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.connectors.iceberg.sink import IcebergPublisher, IcebergSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import RecoveryError, StorageError
from pointstamp.testing import Died, Steps

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), DIFF_FIELD.with_nullable(True)])
Row = tuple[int, str | None]
Commit = list[dict[Row, int]]
"""The changes of some epochs."""


def properties(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}.db", "warehouse": f"file://{path}"}


def sink_at(path: Path, steps: Steps | None = None, query: str = "q") -> IcebergSink:
    made = IcebergSink(
        str(path),
        properties(path),
        open_storage=lambda where: stepping(where, steps or Steps()),
        changes=False,
    )
    return made.for_query(query, {"table": SCHEMA})


def staged(sink: IcebergSink, first: int, commit: Commit, generation: int = 0) -> list[Staged]:
    """What two workers stage of a commit's epochs."""
    pieces: list[Staged] = []
    for worker in range(2):
        epochs: dict[int, list[pa.RecordBatch]] = {}
        for at, changes in enumerate(commit, first):
            own = [row for row in changes.items() if row[1] and row[0][0] % 2 == worker]
            rows = [{"x": x, "s": s, "diff": weight} for (x, s), weight in own]
            epochs[at] = [pa.RecordBatch.from_pylist(rows, SCHEMA)] if rows else []
        pieces += sink.writer(worker, generation).stage("table", epochs)
    return pieces


def seen(path: Path) -> Counter[Row]:
    """What a plain reader of Iceberg sees."""
    catalog = SqlCatalog("default", **properties(path))
    try:
        if not catalog.table_exists("pointstamp.table"):
            return Counter()
        table = catalog.load_table("pointstamp.table").scan().to_arrow()
        assert table.column_names == ["x", "s"]
        return Counter((row["x"], row["s"]) for row in table.to_pylist())
    finally:
        catalog.close()


@contextmanager
def publisher_of(sink: IcebergSink) -> Iterator[IcebergPublisher]:
    made = sink.publisher()
    try:
        yield made
    finally:
        made.close()


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Commit, Counter[Row]]]:
    rows = st.tuples(st.integers(0, 3), st.sampled_from([None, "", "a"]))
    there: Counter[Row] = Counter()
    made = []
    for _ in range(draw(st.integers(1, 5))):
        commit: Commit = []
        for _ in range(draw(st.integers(1, 2))):
            wanted = draw(st.dictionaries(rows, st.integers(0, 2), max_size=4))
            commit.append({row: count - there[row] for row, count in wanted.items()})
            there = Counter({row: count for row, count in {**there, **wanted}.items() if count})
        made.append((commit, there))
    return made


@settings(max_examples=6, deadline=None)
@given(history=histories())
def test_a_plain_reader_sees_the_table_after_every_commit(
    history: list[tuple[Commit, Counter[Row]]],
    tmp_path_factory: Any,  # noqa: ANN401
) -> None:
    path = tmp_path_factory.mktemp("iceberg")
    sink, epoch = sink_at(path), 0
    for number, (commit, state) in enumerate(history):
        with publisher_of(sink) as publisher:
            publisher.discard(1, [])
            pieces = staged(sink, epoch, commit)
            epoch += len(commit)
            publisher.publish(number, epoch - 1, pieces)
            publisher.publish(number, epoch - 1, pieces)
            assert seen(path) == state, f"commit {number}"
            assert publisher.published_through() == epoch - 1
    assert not list(path.glob("table/_changes/*")), "what is part of the table is removed"


HISTORY: list[tuple[Commit, Counter[Row]]] = [
    ([{(1, "a"): 2, (2, "b"): 1}, {(3, None): 1}], Counter({(1, "a"): 2, (2, "b"): 1, (3, None): 1})),
    ([{(1, "a"): -1, (2, "b"): -1, (5, "z"): 1}], Counter({(1, "a"): 1, (3, None): 1, (5, "z"): 1})),
]


@contextmanager
def catalog_steps(steps: Steps) -> Iterator[None]:
    """The process may also die before and after each commit of the catalog."""
    commit = SqlCatalog.commit_table

    def stepping_commit(self: SqlCatalog, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        steps.take()
        done = commit(self, *args, **options)
        steps.take()
        return done

    with mock.patch.object(SqlCatalog, "commit_table", stepping_commit):
        yield


def publish_all(path: Path, steps: Steps, generation: int) -> None:
    """A driver and two workers that resume from what is published, as the journal of a query makes them."""
    sink = sink_at(path, steps)
    with publisher_of(sink) as publisher:
        reached = publisher.published_through()
        publisher.discard(generation, [])
        epoch = 0
        for number, (commit, _) in enumerate(HISTORY):
            last = epoch + len(commit) - 1
            if reached is None or last > reached:
                publisher.publish(number, last, staged(sink, epoch, commit, generation))
            epoch = last + 1


def test_a_process_may_die_before_any_step_and_a_change_is_applied_once(tmp_path: Path) -> None:
    allowed = [Counter[Row](), *(state for _, state in HISTORY)]
    for dies_before in range(1_000):
        path = tmp_path / str(dies_before)
        path.mkdir()
        steps = Steps(dies_before=dies_before)
        try:
            with catalog_steps(steps):
                publish_all(path, steps, generation=0)
        except Died:
            assert seen(path) in allowed, f"died before step {dies_before}"
            publish_all(path, Steps(), generation=1)
            assert seen(path) == HISTORY[-1][1], f"died before step {dies_before}"
            continue
        break
    assert dies_before > 10


def test_another_driver_that_publishes_the_same_commit_meanwhile_adds_nothing(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    pieces = staged(sink, 0, HISTORY[0][0])
    commit = SqlCatalog.commit_table
    others: list[int] = []

    def overtaken(self: SqlCatalog, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        if not others:
            others.append(1)
            with publisher_of(sink_at(tmp_path)) as other:
                other.publish(0, 1, pieces)
        return commit(self, *args, **options)

    with mock.patch.object(SqlCatalog, "commit_table", overtaken), publisher_of(sink) as publisher:
        publisher.publish(0, 1, pieces)
    assert others
    assert seen(tmp_path) == HISTORY[0][1]


def test_a_table_of_another_query_is_rejected(tmp_path: Path) -> None:
    publish_all(tmp_path, Steps(), 0)
    with (
        publisher_of(sink_at(tmp_path, query="another")) as publisher,
        pytest.raises(RecoveryError, match="has rows or commits of another one"),
    ):
        publisher.check_outputs([])


def test_rows_that_another_writer_has_removed_are_an_error(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    with publisher_of(sink) as publisher:
        publisher.publish(0, 1, staged(sink, 0, HISTORY[0][0]))
        catalog = SqlCatalog("default", **properties(tmp_path))
        catalog.load_table("pointstamp.table").delete("x = 1")
        catalog.close()
        with pytest.raises(StorageError, match="Another writer has changed the table"):
            publisher.publish(1, 2, staged(sink, 2, HISTORY[1][0]))


def test_a_query_keeps_a_table_of_its_current_rows(tmp_path: Path) -> None:
    flow = ps.Dataflow("sales")
    orders = flow.table("orders", "x long, s string, w long", weight="w")
    flow.output("table", orders)
    epochs = [
        pa.table({"x": [1, 1, 2], "s": ["a", "a", "b"], "w": [1, 1, 1]}),
        pa.table({"x": [1, 3], "s": ["a", None], "w": [-1, 1]}),
    ]
    for count in (1, 2):
        query = flow.start(
            {"orders": epochs[:count]},
            checkpoint=tmp_path / "checkpoint",
            output=ps.io.IcebergSink(str(tmp_path / "lake"), properties(tmp_path / "lake"), changes=False),
        )
        query.await_termination(60)
    assert seen(tmp_path / "lake") == Counter({(1, "a"): 1, (2, "b"): 1, (3, None): 1})
