"""Outputs that are dropped, added, renamed or of other columns: said before anything is written, or sound.

Families:
- accepted: what the sink can go on with is complete in what is published, of each output from the epoch at
  which it began to the one at which it ended;
- refused: nothing is written, and the flow of before goes on as if nothing had happened; the advice works;
- commits that were not published when the flow was changed, whose rows are those of the flow of before;
- sinks of one's own, that do not know the question.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import pointstamp as ps
from pointstamp.errors import RecoveryError, SchemaError
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from sinks.sqlite_sink import SqliteSink
from support.recovering import Died, MemorySink, spec_of
from support.streams import SECONDS_MAX, put

Seen = dict[str, list[tuple[int, ...]]]
BATCHES = [pa.record_batch({"k": [day, 7], "v": [day, 1]}) for day in range(6)]


def _flow(**outputs: str) -> ps.Dataflow:
    """Running sums by key, under these names; the word after each says of which columns."""
    flow = ps.Dataflow("sums")
    rows = flow.input("rows", "k long, v long")
    sums = rows.reduce("k", v=ps.sum("v"), running=True)
    for name, columns in outputs.items():
        kept = columns.split()
        schema = ", ".join(f"{each} long" for each in kept)

        def select(batch: pa.RecordBatch, kept: list[str] = kept) -> pa.RecordBatch:
            return batch.select(kept)

        flow.output(name, sums.map_batches(select, schema, name=f"to {name}"))
    return flow


@dataclass
class Place:
    """Where a query lives; ``kind`` is the sink's, ``how`` is where its workers run."""

    folder: Path
    kind: str
    how: str

    def run(self, flow: ps.Dataflow, count: int, *, accept: bool = False, **options: Any) -> None:  # noqa: ANN401
        """Run over so many batches, one for each epoch, and stop."""
        name = options.pop("name", "out")
        output: Any = str(self.folder / name)
        if self.kind == "delta":
            output = ps.DeltaSink(output)
        query = flow.start_local(
            rows=BATCHES[:count],
            checkpoint=str(self.folder / f"checkpoint of {name}"),
            output=output,
            accept_changes=accept,
            snapshots=SnapshotPolicy(epochs=1),
            workers=2,
            processes=None if self.how == "local" else 2,
            **options,
        )
        try:
            assert query.awaitTermination(SECONDS_MAX)
        finally:
            query.stop(finish=False)

    def seen(self, name: str = "out") -> Seen:
        """All rows that are published."""
        if self.kind == "parquet":
            tables = ps.read_published(str(self.folder / name))
        else:
            folders = [each for each in (self.folder / name).iterdir() if (each / "_delta_log").is_dir()]
            tables = {each.name: DeltaTable(each).to_pyarrow_table() for each in folders}
        return {
            each: sorted(tuple(row.values()) for row in table.to_pylist())
            for each, table in tables.items()
            if table.num_rows
        }

    def stored(self) -> dict[str, bytes]:
        """Every file of the checkpoint and of the output."""
        files = [each for each in self.folder.rglob("*") if each.is_file()]
        return {str(each): each.read_bytes() for each in files}


def _sums(first: int, last: int, *columns: str) -> list[tuple[int, ...]]:
    """What epochs publish: of each key that came, the sum so far."""
    rows = []
    for day in range(first, last + 1):
        found = {"k": day, "v": day}, {"k": 7, "v": day + 1}
        rows += [(day, *(row[column] for column in columns)) for row in found]
    return sorted(rows)


@pytest.fixture(params=["local", "processes"])
def how(request: pytest.FixtureRequest) -> str:
    word: str = request.param
    return word


BEFORE = {"sums": "k v", "keys": "k"}
REFUSED: dict[str, dict[str, dict[str, str]]] = {
    "parquet": {"changed": {"sums": "v k", "keys": "k"}, "fewer columns": {"sums": "k", "keys": "k"}},
    "delta": {
        "changed": {"sums": "v k", "keys": "k"},
        "added": {**BEFORE, "more": "v"},
        "renamed": {"totals": "k v", "keys": "k"},
    },
}


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, change) for kind, changes in REFUSED.items() for change in changes]
)
def test_a_change_that_is_refused_has_written_nothing_and_the_flow_of_before_goes_on(
    kind: str, change: str, how: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind, how)
    place.run(_flow(**BEFORE), 3)
    before = place.stored()
    with pytest.raises((RecoveryError, SchemaError), match="output '"):
        place.run(_flow(**REFUSED[kind][change]), 5, accept=True)
    assert place.stored() == before
    place.run(_flow(**BEFORE), 5)
    assert place.seen() == {"sums": _sums(0, 4, "k", "v"), "keys": _sums(0, 4, "k")}


ACCEPTED: dict[str, dict[str, tuple[dict[str, str], Seen]]] = {
    "parquet": {
        "dropped": ({"sums": "k v"}, {"keys": _sums(0, 2, "k")}),
        "added": ({**BEFORE, "more": "v"}, {"keys": _sums(0, 4, "k"), "more": _sums(3, 4, "v")}),
        "renamed": ({"sums": "k v", "names": "k"}, {"keys": _sums(0, 2, "k"), "names": _sums(3, 4, "k")}),
    },
    "delta": {"dropped": ({"sums": "k v"}, {"keys": _sums(0, 2, "k")})},
}


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, change) for kind, changes in ACCEPTED.items() for change in changes]
)
def test_a_change_that_is_accepted_is_complete_from_where_an_output_began_to_where_it_ended(
    kind: str, change: str, how: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind, how)
    changed, others = ACCEPTED[kind][change]
    place.run(_flow(**BEFORE), 3)
    place.run(_flow(**changed), 5, accept=True)
    assert place.seen() == {"sums": _sums(0, 4, "k", "v"), **others}
    place.run(_flow(**changed), 6)  # the change is part of the query now
    assert place.seen()["sums"] == _sums(0, 5, "k", "v")


def test_an_output_that_comes_back_goes_on_after_a_gap_in_parquet(tmp_path: Path) -> None:
    place = Place(tmp_path, "parquet", "local")
    place.run(_flow(**BEFORE), 2)
    place.run(_flow(sums="k v"), 4, accept=True)
    before = place.stored()
    with pytest.raises(RecoveryError, match="output 'keys'"):
        place.run(_flow(sums="k v", keys="v"), 6, accept=True)
    assert place.stored() == before
    place.run(_flow(**BEFORE), 6, accept=True)
    keys = sorted([*_sums(0, 1, "k"), *_sums(4, 5, "k")])
    assert place.seen() == {"sums": _sums(0, 5, "k", "v"), "keys": keys}


def test_what_is_refused_can_be_had_with_a_savepoint_and_a_new_place_as_the_words_say(tmp_path: Path) -> None:
    place = Place(tmp_path, "delta", "local")

    def start(flow: ps.Dataflow, name: str, **options: Any) -> ps.Query:  # noqa: ANN401 - passed on
        return flow.start_local(
            rows=ps.files(str(tmp_path / "in")),
            checkpoint=str(tmp_path / f"checkpoint of {name}"),
            output=ps.DeltaSink(str(tmp_path / name)),
            snapshots=SnapshotPolicy(epochs=1),
            **options,
        )

    def arrive(first: int, last: int) -> None:
        for day in range(first, last + 1):
            put(tmp_path / "in", str(day), {"k": [day, 7], "v": [day, 1]})

    arrive(0, 2)
    query = start(_flow(**BEFORE), "out")
    query.processAllAvailable(SECONDS_MAX)
    query.savepoint("before the change", SECONDS_MAX)
    query.stop()
    arrive(3, 4)
    more = _flow(**BEFORE, more="v")
    with pytest.raises(RecoveryError, match=r"Take the change back, or begin with .* savepoint="):
        start(more, "out", accept_changes=True, available_now=True).awaitTermination(SECONDS_MAX)
    kept = (str(tmp_path / "checkpoint of out"), "before the change")
    options: dict[str, Any] = {"accept_changes": True, "available_now": True, "savepoint": kept}
    assert start(more, "new", **options).awaitTermination(SECONDS_MAX)
    found = place.seen("new")
    assert found == {"sums": _sums(3, 4, "k", "v"), "keys": _sums(3, 4, "k"), "more": _sums(3, 4, "v")}


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_that_were_committed_and_not_published_when_an_output_was_dropped_are_published(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, kind, "local")
    module: Any = import_module(f"pointstamp.sinks.{kind}")
    publisher: Any = getattr(module, f"{kind.capitalize()}Publisher")
    publish: Callable[..., None] = publisher.publish

    def dying(self: Any, number: int, *rest: Any) -> None:  # noqa: ANN401 - passed on
        if number == 2:
            raise Died
        publish(self, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "publish", dying)
        with pytest.raises(Died):
            place.run(_flow(**BEFORE), 3)
    assert place.seen()["keys"] == _sums(0, 1, "k")
    place.run(_flow(sums="k v"), 5, accept=True)
    assert place.seen() == {"sums": _sums(0, 4, "k", "v"), "keys": _sums(0, 2, "k")}


# Sinks of one's own.


def test_a_sink_that_does_not_know_the_question_keeps_its_outputs(tmp_path: Path) -> None:
    storage = MemoryStorage()
    sink = _Unasked(MemorySink())
    data = [{"rows": each} for each in BATCHES]

    def run(flow: ps.Dataflow, count: int, *, accept: bool = False) -> None:
        spec = spec_of(flow, data[:count], storage, sink, accept_changes=accept)
        Supervisor(spec, InProcessLauncher()).run()

    run(_flow(**BEFORE), 3)
    before = {name: storage.read(name) for name in storage.list()}
    for changed in ({"sums": "k v"}, {**BEFORE, "more": "v"}, {"sums": "v k", "keys": "k"}):
        with pytest.raises(RecoveryError, match=r"the sink _Unasked has no method check_outputs"):
            run(_flow(**changed), 5, accept=True)
        assert {name: storage.read(name) for name in storage.list()} == before
    run(_flow(**BEFORE), 5)
    assert sink.inner.rows()[("keys", 4)] == [(4,), (7,)]


class _Unasked:
    """A sink whose publisher has the methods that it needs, and no more."""

    def __init__(self, inner: MemorySink) -> None:
        self.inner = inner

    def for_query(self, query: str, schemas: Any) -> "_Unasked":  # noqa: ANN401
        return self

    def writer(self, worker: int, generation: int) -> MemorySink:
        return self.inner.writer(worker, generation)

    def publisher(self) -> Any:  # noqa: ANN401
        inner = self.inner

        class Plain:
            publish = staticmethod(inner.publish)
            published_through = staticmethod(inner.published_through)
            discard = staticmethod(inner.discard)

        return Plain()


def test_a_sink_that_takes_any_output_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, "parquet", "local")
    flow = _flow(**BEFORE)
    for count, each in ((2, flow), (4, _flow(sums="k v")), (6, flow)):
        query = each.start_local(
            rows=BATCHES[:count],
            checkpoint=str(place.folder / "checkpoint"),
            output=SqliteSink(str(place.folder / "db")),
            accept_changes=True,
        )
        assert query.awaitTermination(SECONDS_MAX)
        query.stop()
