"""Queries that are started again with an edited flow, another source, or from another working directory.

Families:
- edits by hand: each is rejected with nothing written, or gives the table of the new flow from scratch, and
  the flow of before resumes with the right table;
- sources: a checkpoint belongs to one source for each input, unless it was moved;
- accepted changes: what may change, and failures at every step, after which the flow of before resumes;
- working directories: places are absolute from the start on;
- checkpoints of other layouts.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp import graphs
from pointstamp.connectors.source import differences
from pointstamp.errors import PointstampError, RecoveryError, StorageError
from pointstamp.journal.history import Entry, FlowShape, stored_shape
from pointstamp.journal.journal import Journal
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.start_checks import known_query_id
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.anywhere import recorded_place, storage_at
from pointstamp.storage.memory import MemoryStorage
from support.options import with_options
from support.recovering import MemorySink, copied, spec_of
from support.storages import Through
from support.streams import SECONDS_MAX, put

Tables = dict[str, list[dict[str, Any]]]
T, U = "k long, v long", "k long, v long"
DAYS: dict[str, list[pa.Table]] = {
    "t": [pa.table({"k": [1, 2], "v": [1, 2]}), pa.table({"k": [1, 3], "v": [4, 8]})],
    "u": [pa.table({"k": [1, 4], "v": [16, 32]}), pa.table({"k": [2, 4], "v": [64, 128]})],
}


def run(flow: ps.Dataflow, place: Path, days: int, **options: Any) -> Tables:  # noqa: ANN401 - passed on
    """Run over so many days, and return the tables that are published."""
    names = [node.name for node in flow.plan.nodes if node.kind.value == "input"]
    given = options.pop("sources", None) or {name: DAYS[name][:days] for name in names}
    query = flow.start(
        given,
        checkpoint=str(place / "checkpoint"),
        output=str(place / "out"),
        available_now=True,
        **with_options(options, ps.QueryOptions(snapshots=ps.SnapshotPolicy(epochs=1))),
    )
    try:
        assert query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)
    return tables_of(flow, place)


def tables_of(flow: ps.Dataflow, place: Path) -> Tables:
    return {
        name: sorted(ps.read_changes(str(place / "out"), name).to_pylist(), key=repr)
        for name in flow.plan.output_schemas()
    }


def stored(place: Path) -> dict[str, bytes]:
    files = [each for each in place.rglob("*") if each.is_file()]
    return {str(each): each.read_bytes() for each in files}


# Edits by hand.


def sums(*, swapped: bool = False, inputs: str = "tu") -> ps.Dataflow:
    """Two sums, whose lines stand in this order or in the other."""
    flow = ps.Dataflow("sums")
    t, u = (flow.stream_input(each, T) for each in inputs)
    if swapped:
        y = u.to_table().group_by("k").agg(n=ps.sum("v"))
        x = t.to_table().group_by("k").agg(n=ps.sum("v"))
    else:
        x = t.to_table().group_by("k").agg(n=ps.sum("v"))
        y = u.to_table().group_by("k").agg(n=ps.sum("v"))
    flow.output("of t", x)
    flow.output("of u", y)
    return flow


def made(make: Callable[[ps.Stream, ps.Stream], ps.Stream | ps.Table]) -> ps.Dataflow:
    flow = ps.Dataflow("made")
    flow.output("out", make(flow.stream_input("t", T), flow.stream_input("u", U)))
    return flow


def tables(make: Callable[[ps.Table, ps.Table], ps.Stream | ps.Table]) -> ps.Dataflow:
    return made(lambda t, u: make(t.to_table(), u.to_table()))


def ranked(**options: Any) -> ps.Dataflow:  # noqa: ANN401 - passed on
    return tables(lambda t, u: graphs.pagerank(graphs.Graph(t.union(u), src="k", dst="v"), **options))


def view(text: str) -> ps.Dataflow:
    return ps.sql(text, t=T, u=U)


def _values(word: str) -> ps.Dataflow:
    text = "select t.k, w from t join (values (1, 'one'), (3, 'x')) s(k, w) on t.k = s.k "
    text += "where t.k in (select k from u)"
    return view(text.replace("one", word))


EDITS: dict[str, tuple[Callable[[], ps.Dataflow], Callable[[], ps.Dataflow]]] = {
    "inputs swapped": (sums, lambda: sums(inputs="ut")),
    "another table": (
        lambda: view("select x.k, sum(x.v) s from t x group by x.k union all select k, v from u where false"),
        lambda: view("select x.k, sum(x.v) s from u x group by x.k union all select k, v from t where false"),
    ),
    "values": (lambda: _values("one"), lambda: _values("ONE")),
    "delay": (
        lambda: made(lambda t, u: t.union(u).delay(1).group_by("k", running=True).count()),
        lambda: made(lambda t, u: t.union(u).delay(2).group_by("k", running=True).count()),
    ),
    "minus": (lambda: tables(lambda t, u: t.except_(u)), lambda: tables(lambda t, u: u.except_(t))),
    "damping": (ranked, lambda: ranked(damping=0.5)),
    "cdlp": (
        lambda: tables(lambda t, u: graphs.cdlp(graphs.Graph(t.union(u), src="k", dst="v"), rounds=3)),
        lambda: tables(lambda t, u: graphs.cdlp(graphs.Graph(t.union(u), src="k", dst="v"), rounds=4)),
    ),
    "left": (
        lambda: tables(lambda t, u: t.join(u, "k", how="left")),
        lambda: tables(lambda t, u: u.join(t, "k", how="left")),
    ),
    "semi": (
        lambda: tables(lambda t, u: t.join(u, "k", how="semi")),
        lambda: tables(lambda t, u: u.join(t, "k", how="semi")),
    ),
    "lookup": (
        lambda: made(lambda t, u: t.lookup(u.to_table(), "k")),
        lambda: made(lambda t, u: u.lookup(t.to_table(), "k")),
    ),
    "iterate": (
        lambda: tables(lambda t, u: t.iterate(lambda x, y: x.union(y).distinct(), u)),
        lambda: tables(lambda t, u: u.iterate(lambda x, y: x.union(y).distinct(), t)),
    ),
    "exists": (
        lambda: view("select k from t where exists (select 1 from u where u.k = t.k and u.v > 1)"),
        lambda: view("select k from u where exists (select 1 from t where u.k = t.k and u.v > 1)"),
    ),
    "scalar subquery": (
        lambda: view("select k, (select max(v) from u) m from t"),
        lambda: view("select k, (select max(v) from t) m from u"),
    ),
    "literal": (
        lambda: tables(lambda t, u: t.union(u).filter(ps.col("v") > 2).count("k")),
        lambda: tables(lambda t, u: t.union(u).filter(ps.col("v") > 3).count("k")),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_flow_is_rejected_or_gives_the_table_of_the_new_flow(edit: str, tmp_path: Path) -> None:
    before, now = EDITS[edit]
    run(before(), tmp_path / "a", 1)
    files = stored(tmp_path / "a")
    for accept in (False, True):
        with pytest.raises(RecoveryError, match=r"belongs to another flow: .* (was .*, is |is new)"):
            run(now(), tmp_path / "a", 2, accept_changes=accept)
        assert stored(tmp_path / "a") == files
    assert run(before(), tmp_path / "a", 2) == run(before(), tmp_path / "b", 2)


def test_the_error_names_the_operator_the_parameter_and_both_values(tmp_path: Path) -> None:
    run(sums(), tmp_path, 1)
    with pytest.raises(RecoveryError, match="belongs to another flow") as caught:
        run(sums(inputs="ut"), tmp_path, 2)
    assert str(caught.value).startswith(
        "flow 'sums': the checkpoint belongs to another flow: operator changes of of t: input 'in' was "
        "operator agg, is operator agg 2;"
    )
    assert str(caught.value).endswith(
        "Resume with the flow that wrote the checkpoint, or start with a new checkpoint and a new output."
    )


def test_another_column_of_epochs_is_an_edit(tmp_path: Path) -> None:
    run(reading(), tmp_path, 1, epoch="k")
    files = stored(tmp_path)
    for epoch in ("v", None):
        with pytest.raises(RecoveryError, match=r"input t: epoch (was .*, is|is missing)"):
            run(reading(), tmp_path, 2, epoch=epoch)
        assert stored(tmp_path) == files


def _named_otherwise() -> ps.Dataflow:
    # Other names of variables and operators, and other lines.
    other = ps.Dataflow("sums")
    first, second = other.stream_input("t", T), other.stream_input("u", U)

    left = first.to_table().group_by("k").agg(n=ps.sum("v"))
    right = second.to_table().group_by("k").agg(n=ps.sum("v")).named("right")
    other.output("of t", left)
    other.output("of u", right)
    return other


@pytest.mark.parametrize(
    "options", [{"workers": 3}, {"processes": 2}, {}], ids=["workers", "processes", "same"]
)
def test_other_names_another_order_and_another_number_of_workers_are_no_edit(
    options: dict[str, int], tmp_path: Path
) -> None:
    run(sums(), tmp_path / "a", 1)
    run(_named_otherwise(), tmp_path / "a", 2, **options)
    assert run(sums(swapped=True), tmp_path / "a", 2) == run(sums(), tmp_path / "b", 2)


# Sources.


def reading() -> ps.Dataflow:
    return tables(lambda t, u: t.union(u).group_by("k").agg(n=ps.sum("v")))


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name, first in (("a", 1), ("b", 100), ("c", 7)):
        for day in range(2):
            put(tmp_path / name, f"day {day}", {"k": [1], "v": [first + day]})
    return tmp_path


def read(place: Path, t: Any, u: Any, **options: Any) -> Tables:  # noqa: ANN401 - sources
    return run(reading(), place, 2, sources={"t": t, "u": u}, **options)


def test_a_checkpoint_belongs_to_one_folder_for_each_input(folders: Path) -> None:
    a, b, c = (str(folders / name) for name in "abc")
    place = folders / "query"
    found = read(place, ps.io.files(a), ps.io.files(b))
    files = stored(place)
    for t, u, words in (
        (
            ps.io.files(c),
            ps.io.files(b),
            rf"input 't': the checkpoint belongs to files '{a}' .*, got files '{c}'",
        ),
        (
            ps.io.files(b),
            ps.io.files(a),
            rf"input 't': the checkpoint belongs to files '{a}' .*, got files '{b}'",
        ),
        (ps.io.files(a), ps.io.files(b, pattern="day*"), r"input 'u': .*pattern \*.* got .*pattern day"),
        (ps.io.files(a, in_order=True), ps.io.files(b), r"input 't': .* got .*in_order True"),
        (
            DAYS["t"],
            ps.io.files(b),
            rf"input 't': the checkpoint belongs to files '{a}' .*, got rows at hand",
        ),
        (
            ps.io.published(a, "out"),
            ps.io.files(b),
            rf"belongs to files '{a}' .*, got published output '{a}'",
        ),
    ):
        for accept in (False, True):
            with pytest.raises(PointstampError, match=words) as caught:
                read(place, t, u, accept_changes=accept)
            assert isinstance(caught.value, RecoveryError) or "published" in words
            assert stored(place) == files
    assert read(place, ps.io.files(a, bytes_per_tick=10_000), ps.io.files(b, list_every_seconds=1)) == found


def test_files_that_were_moved_are_read_on_at_their_new_place(folders: Path) -> None:
    a, b = str(folders / "a"), str(folders / "b")
    read(folders / "query", ps.io.files(a), ps.io.files(b))
    os.rename(a, folders / "moved")
    put(folders / "moved", "day 2", {"k": [1], "v": [1000]})
    moved = str(folders / "moved")
    with pytest.raises(RecoveryError, match=rf"pass moved_from='{a}'"):
        read(folders / "query", ps.io.files(moved), ps.io.files(b))
    with pytest.raises(RecoveryError, match=r"belongs to files"):
        read(folders / "query", ps.io.files(moved, moved_from=b), ps.io.files(b))
    read(folders / "query", ps.io.files(moved, moved_from=a), ps.io.files(b))
    # From now on it is the place that is known, and to say where it was before does no harm.
    for again in (ps.io.files(moved), ps.io.files(moved, moved_from=a)):
        read(folders / "query", again, ps.io.files(b))
    published = ps.read_table(str(folders / "query" / "out"), "out").to_pylist()
    assert [row["n"] for row in published] == [1 + 2 + 100 + 101 + 1000]
    with pytest.raises(RecoveryError, match=rf"belongs to files '{moved}'"):
        read(folders / "query", ps.io.files(str(folders / "c")), ps.io.files(b))


def identity(source: Any) -> dict[str, str]:  # noqa: ANN401 - any source
    return dict(source.identity())


AS_FILES_ARE = {"pattern": "*", "order_by": "modified", "quote": '"', "header": "True"}


def test_every_source_has_an_identity_without_secrets() -> None:
    options = {"key": "SECRET", "password": "SECRET"}
    sources = [
        ps.io.files("s3://bucket/in", storage_options=options),
        ps.io.files("sftp://me:SECRET@host/in", moved_from="sftp://me:SECRET@old/in"),
        ps.io.published("sftp://me:SECRET@host/out", "counts", storage_options=options),
        ps.io.delta("s3://bucket/table", storage_options=options),
        ps.io.kafka("one:9092,two:9092", "orders", options={"sasl.password": "SECRET"}),
        ps.io.kafka("one:9092", "orders", format="avro", registry="http://me:SECRET@registry"),
    ]
    assert [identity(each) for each in sources] == [
        {"kind": "files", "place": "s3://bucket/in", **AS_FILES_ARE},
        {"kind": "files", "place": "sftp://host/in", **AS_FILES_ARE},
        {"kind": "published output", "place": "sftp://host/out", "output": "counts"},
        {"kind": "changes of the Delta table", "place": "s3://bucket/table"},
        {
            "kind": "Kafka",
            "servers": "one:9092,two:9092",
            "topics": "orders",
            "format": "json",
            "starting": "earliest",
        },
        {
            "kind": "Kafka",
            "servers": "one:9092",
            "topics": "orders",
            "format": "avro",
            "starting": "earliest",
        },
    ]
    assert "SECRET" not in repr([identity(each) for each in sources])


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        (ps.io.kafka("two:9092,three:9092", "orders"), True),
        (ps.io.kafka("three:9092", "orders"), False),
        (ps.io.kafka("three:9092", "orders", moved_from="one:9092,two:9092"), True),
        (ps.io.kafka("one:9092", "payments"), False),
        (ps.io.kafka("one:9092", "orders", starting="latest"), False),
        (ps.io.kafka("one:9092", "orders", rows_per_tick=7, on_bad="skip"), True),
    ],
)
def test_topics_are_the_same_if_one_server_is(now: Any, is_same: bool) -> None:  # noqa: ANN401
    before = ps.io.kafka("one:9092,two:9092", "orders")
    assert (not list(differences(identity(before), identity(now), now.moved_from))) == is_same


def test_a_place_is_recorded_without_credentials() -> None:
    places = {
        "/data/in/": "/data/in",
        "file:///data/in": "/data/in",
        "s3://bucket/a@b/in/": "s3://bucket/a@b/in",
        "ftp://me@host/in": "ftp://host/in",
        "sftp://me:a@c@host/in?token=x": "sftp://host/in",
        "abfss://box@store.example/in": "abfss://box@store.example/in",
    }
    assert {each: recorded_place(each) for each in places} == places


# Accepted changes.


def doubling(*, by: int = 2, outputs: str = "both", fails: bool = False) -> ps.Dataflow:
    flow = ps.Dataflow("doubling")
    rows = flow.stream_input("rows", T)

    def multiply(batch: pa.RecordBatch) -> pa.RecordBatch:
        if fails:
            raise ValueError("the new function has a mistake")
        return batch.set_column(1, "v", pa.array([value * by for value in batch["v"].to_pylist()]))

    flow.output("sums", rows.map_batches(multiply).group_by("k", running=True).agg(v=ps.sum("v")))
    if outputs == "both":
        flow.output("keys", rows.select("k"))
    if outputs == "three":
        flow.output("more", rows.group_by("k", running=True).count())
    return flow


DATA = [{"rows": pa.record_batch({"k": [1], "v": [value]})} for value in (1, 10, 100)]


def go(flow: ps.Dataflow, count: int, storage: Any, sink: MemorySink, **options: Any) -> None:  # noqa: ANN401
    Supervisor(spec_of(flow, DATA[:count], storage, sink, **options), InProcessLauncher()).run()


def shape_in(storage: Any) -> FlowShape:  # noqa: ANN401 - a storage
    journal: Journal[Entry] = Journal.open(storage, Entry, query="query")
    shape = stored_shape(journal.entries())
    assert shape is not None
    return shape


def test_a_changed_function_is_accepted_only_if_the_user_says_so() -> None:
    storage, sink = MemoryStorage(), MemorySink()
    go(doubling(), 1, storage, sink)
    before = {name: storage.read(name) for name in storage.list()}
    with pytest.raises(RecoveryError, match=r"operator map: user code .* has changed.*accept_changes=True"):
        go(doubling(by=3), 2, storage, sink)
    assert {name: storage.read(name) for name in storage.list()} == before
    go(doubling(by=3), 2, storage, sink, accept_changes=True)
    go(doubling(by=3), 3, storage, sink)
    assert [sink.rows()["sums", day] for day in range(3)] == [[(1, 2)], [(1, 2 + 30)], [(1, 2 + 30 + 300)]]


def test_a_new_view_is_rejected_also_if_changes_are_accepted() -> None:
    storage, sink = MemoryStorage(), MemorySink()
    go(doubling(outputs="one"), 1, storage, sink)
    with pytest.raises(RecoveryError, match=r"operator count is new; output more is new"):
        go(doubling(outputs="three"), 2, storage, sink, accept_changes=True)
    go(doubling(outputs="one"), 2, storage, sink)


def test_an_output_whose_operator_keeps_a_table_for_others_cannot_be_dropped(tmp_path: Path) -> None:
    def flow(*, has_first: bool) -> ps.Dataflow:
        made = ps.Dataflow("shared")
        t = made.table("t", T).group_by("k", "v").count()  # which may lose rows
        if has_first:
            made.output("first", t.top(1, "k", by="v").named("first"))
        made.output("second", t.top(2, "k", by="v").named("second"))
        return made

    run(flow(has_first=True), tmp_path, 1)
    files = stored(tmp_path)
    words = "operator first is missing, in whose state the table of operator second was saved"
    with pytest.raises(RecoveryError, match=words):
        run(flow(has_first=False), tmp_path, 2, accept_changes=True)
    assert stored(tmp_path) == files
    assert run(flow(has_first=True), tmp_path, 2)["second"]


def test_a_change_that_fails_leaves_a_checkpoint_of_the_flow_of_before() -> None:
    storage, sink = MemoryStorage(), MemorySink()
    go(doubling(), 1, storage, sink)
    shape = shape_in(storage)
    with pytest.raises(PointstampError, match="the new function has a mistake"):
        go(doubling(outputs="one", fails=True), 2, storage, sink, accept_changes=True)
    assert shape_in(storage) == shape
    go(doubling(), 3, storage, sink)
    assert [sink.rows()["sums", day] for day in range(3)] == [[(1, 2)], [(1, 22)], [(1, 222)]]


@dataclass
class Failing(Through):
    """A storage that fails from one of its writes on."""

    left: int = 0

    def create(self, name: str, content: Any) -> None:  # noqa: ANN401 - bytes
        self._count(name)
        super().create(name, content)

    def write(self, name: str, content: Any) -> None:  # noqa: ANN401 - as above
        self._count(name)
        super().write(name, content)

    def _count(self, name: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise StorageError(f"'{name}' could not be stored")


def test_a_change_that_fails_at_any_write_can_be_taken_back_until_it_is_committed() -> None:
    first, sink = MemoryStorage(), MemorySink()
    go(doubling(), 1, first, sink)
    shape = shape_in(first)
    outcomes = []
    for writes in range(100):
        storage, out = copied(first), MemorySink(sink.shelf.copy())
        failing = Failing(storage, writes)
        try:
            go(doubling(by=3, outputs="one"), 2, failing, out, accept_changes=True)
        except PointstampError:
            is_done = False
        else:
            is_done = True
        is_changed = shape_in(storage) != shape
        outcomes.append(is_changed)
        if is_changed:
            go(doubling(by=3, outputs="one"), 3, storage, out)
            assert out.rows()["sums", 2] == [(1, 2 + 30 + 300)]
        else:
            go(doubling(), 3, storage, out)
            assert out.rows()["sums", 2] == [(1, 222)]
            assert out.rows()["keys", 2] == [(1,)]
        if is_done:
            break
    assert is_done
    # There was a step that changed the flow, one before it that did not, and none that went back.
    assert outcomes == sorted(outcomes)
    assert len(outcomes) > 3
    assert not outcomes[2]


# Working directories.


def test_a_change_of_the_working_directory_moves_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    put(first / "in", "day 0", {"k": [1], "v": [1]})
    monkeypatch.chdir(first)
    flow = ps.Dataflow("places")
    flow.output("out", flow.table("t", T).group_by("k").agg(n=ps.sum("v")))
    query = flow.start(t=ps.io.files("in"), checkpoint="checkpoint", output="out")
    try:
        monkeypatch.chdir(second)
        query.process_all_available(SECONDS_MAX)
        put(first / "in", "day 1", {"k": [1], "v": [10]})
        query.process_all_available(SECONDS_MAX)
    finally:
        query.stop()
    assert list(second.iterdir()) == []
    monkeypatch.chdir(first)
    assert ps.read_table("out", "out").to_pylist() == [{"k": 1, "n": 11}]
    query = flow.start(t=ps.io.files("in"), checkpoint="checkpoint", output="out", available_now=True)
    assert query.await_termination(SECONDS_MAX)
    monkeypatch.chdir(second)
    (second / "in").mkdir()
    again = flow.start(t=ps.io.files("in"), checkpoint="../first/checkpoint", output="../first/out")
    with pytest.raises(RecoveryError, match=rf"belongs to files '{first}/in' .*, got files '{second}/in'"):
        again.awaitTermination(SECONDS_MAX)


def test_a_sink_is_at_one_place_from_the_start_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sinks: list[Any] = [ps.io.ParquetSink("out"), ps.io.DeltaSink("out")]
    assert [each.path for each in sinks] == [str(tmp_path / "out")] * 2
    assert ps.io.ParquetSink("s3://bucket/out").path == "s3://bucket/out"


def test_a_place_without_an_address_is_rejected() -> None:
    flow = ps.Dataflow("nowhere")
    flow.output("out", flow.stream_input("t", T))
    calls: list[Callable[[], object]] = [
        lambda: ps.io.files(""),
        lambda: ps.io.ParquetSink(""),
        lambda: ps.io.DeltaSink(""),
        lambda: flow.start(DAYS, checkpoint="", output="out"),
        lambda: flow.start(DAYS, checkpoint="checkpoint", output=""),
    ]
    for call in calls:
        with pytest.raises(ps.errors.StorageError, match=r"address of a folder is empty\. Give a path"):
            call()


def test_a_run_with_a_checkpoint_reads_its_output_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    flow = ps.Dataflow("moving")

    def move(batch: pa.RecordBatch) -> pa.RecordBatch:
        os.chdir(elsewhere)
        return batch

    flow.output("out", flow.stream_input("t", T).map_batches(move))
    results = flow.run(t=DAYS["t"], checkpoint="checkpoint")
    assert sum(each.num_rows for each in results["out"].values()) == 4
    assert list(elsewhere.iterdir()) == []


def test_a_run_without_rows_is_resumed_with_rows(tmp_path: Path) -> None:
    flow = ps.Dataflow("later")
    flow.output("out", flow.stream_input("t", T).agg(v=ps.sum("v")))
    run_on = partial(flow.run, checkpoint=str(tmp_path), epoch="k")
    assert not [table for table in run_on(t=[])["out"].values() if table.num_rows]
    results = run_on(t=DAYS["t"][:1])["out"]
    assert {epoch: table.to_pylist() for epoch, table in results.items()} == {1: [{"v": 1}], 2: [{"v": 2}]}


# Layouts.


@pytest.mark.parametrize(("layout", "age"), [(0, "an older"), (99, "a newer")])
def test_a_checkpoint_of_another_layout_is_rejected(layout: int, age: str) -> None:
    storage, sink = MemoryStorage(), MemorySink()
    journal: Journal[Entry] = Journal.open(storage, Entry, query="query")
    journal.start_generation("another version", 0.0)
    places = {"input rows": "(k int64)"}
    told: dict[str, Any] = {"type": "FlowShape", "name": "doubling", "query": "query", "places": places}
    if layout:
        told |= {"layout": layout}
    journal.append(msgspec.convert(told, FlowShape))
    with pytest.raises(RecoveryError, match=rf"written by {age} version of pointstamp"):
        go(doubling(), 1, storage, sink)


class Adds:
    """Keeps sums; the shape tells how its state is saved."""

    outputs = "k long, v long"
    state: ClassVar[dict[str, Any]] = {"sums": ps.ports.saved.mapping("long", int)}

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)


def test_a_user_operator_may_change_its_code_and_not_its_state() -> None:
    def flow(kind: type) -> ps.Dataflow:
        made = ps.Dataflow("adds")
        made.output("out", ps.operator("adds", kind(), rows=made.stream_input("rows", T).exchange("k")))
        return made

    def sends_twice(self: Adds, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)
        context.send(batch)

    code = type("Adds", (Adds,), {"on_receive": sends_twice})
    state = type("Adds", (Adds,), {"state": {"sums": ps.ports.saved.values(dict[int, int])}})
    storage, sink = MemoryStorage(), MemorySink()
    go(flow(Adds), 1, storage, sink)
    with pytest.raises(RecoveryError, match=r"operator adds: user code"):
        go(flow(code), 2, storage, sink)
    with pytest.raises(RecoveryError, match=r"operator adds: state 'sums' was mapping, is encoded"):
        go(flow(state), 2, storage, sink, accept_changes=True)
    go(flow(code), 2, storage, sink, accept_changes=True)


def test_the_stored_shape_is_that_of_the_complete_plan(tmp_path: Path) -> None:
    run(sums(), tmp_path, 1)
    storage = storage_at(str(tmp_path / "checkpoint"))
    journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
    shape = stored_shape(journal.entries())
    assert shape is not None
    assert len(shape.operators) == len(sums().plan.nodes)
    assert shape.sources == {"t": {"kind": "rows at hand"}, "u": {"kind": "rows at hand"}}
