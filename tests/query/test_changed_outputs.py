"""Outputs that are dropped, added, renamed or of other columns: rejected with nothing written, or sound.

Families:
- accepted: an output that is dropped is complete in what is published up to the epoch at which it ended;
- rejected: nothing is written, and the flow of before resumes as if nothing had happened;
- commits that were not published when the flow was changed, whose rows are those of the flow of before;
- sinks of one's own, that do not know the question.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import pointstamp as ps
from connectors.sqlite_sink import SqliteSink
from pointstamp.errors import RecoveryError
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from support.options import with_options
from support.recovering import Died, MemorySink, spec_of
from support.streams import SECONDS_MAX, put

Seen = dict[str, list[tuple[int, ...]]]
BATCHES = [pa.record_batch({"k": [day, 7], "v": [day, 1]}) for day in range(6)]


def _flow(**outputs: str) -> ps.Dataflow:
    """Running sums by key, under these names; the word after each says of which columns."""
    flow = ps.Dataflow("sums")
    rows = flow.stream_input("rows", "k long, v long")
    sums = rows.group_by("k", running=True).agg(v=ps.sum("v"))
    for name, columns in outputs.items():
        kept = columns.split()
        schema = ", ".join(f"{each} long" for each in kept)

        def select(batch: pa.RecordBatch, kept: list[str] = kept) -> pa.RecordBatch:
            return batch.select(kept)

        flow.output(name, sums.map_batches(select, schema).named(f"to {name}"))
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
            output = ps.io.DeltaSink(output)
        query = flow.start(
            rows=BATCHES[:count],
            checkpoint=str(self.folder / f"checkpoint of {name}"),
            output=output,
            workers=2,
            processes=None if self.how == "local" else 2,
            **with_options(
                options, ps.QueryOptions(accept_changes=accept, snapshots=SnapshotPolicy(epochs=1))
            ),
        )
        try:
            assert query.await_termination(SECONDS_MAX)
        finally:
            query.stop(finish=False)

    def seen(self, name: str = "out") -> Seen:
        """All rows that are published."""
        if self.kind == "parquet":
            tables = ps.read_changes(str(self.folder / name))
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
REJECTED: dict[str, dict[str, str]] = {
    "changed": {"sums": "v k", "keys": "k"},
    "fewer columns": {"sums": "k", "keys": "k"},
    "added": {**BEFORE, "more": "v"},
    "renamed": {"totals": "k v", "keys": "k"},
}


@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("change", REJECTED)
def test_a_change_that_is_rejected_has_written_nothing_and_the_flow_of_before_resumes(
    kind: str, change: str, how: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind, how)
    place.run(_flow(**BEFORE), 3)
    before = place.stored()
    with pytest.raises(RecoveryError, match="belongs to another flow"):
        place.run(_flow(**REJECTED[change]), 5, accept=True)
    assert place.stored() == before
    place.run(_flow(**BEFORE), 5)
    assert place.seen() == {"sums": _sums(0, 4, "k", "v"), "keys": _sums(0, 4, "k")}


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_output_that_is_dropped_is_complete_up_to_where_it_ended(
    kind: str, how: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind, how)
    changed = {"sums": "k v"}
    place.run(_flow(**BEFORE), 3)
    with pytest.raises(
        RecoveryError, match=r"operator to keys is missing; .*output keys is missing.*accept_ch"
    ):
        place.run(_flow(**changed), 5)
    place.run(_flow(**changed), 5, accept=True)
    assert place.seen() == {"sums": _sums(0, 4, "k", "v"), "keys": _sums(0, 2, "k")}
    place.run(_flow(**changed), 6)  # the change is part of the query now
    assert place.seen()["sums"] == _sums(0, 5, "k", "v")


def test_an_output_that_comes_back_is_rejected_because_it_would_lack_epochs(tmp_path: Path) -> None:
    place = Place(tmp_path, "parquet", "local")
    place.run(_flow(**BEFORE), 2)
    place.run(_flow(sums="k v"), 4, accept=True)
    before = place.stored()
    with pytest.raises(RecoveryError, match="output keys is new"):
        place.run(_flow(**BEFORE), 6, accept=True)
    assert place.stored() == before


def test_a_new_output_is_rejected_also_with_a_savepoint_and_a_new_place(tmp_path: Path) -> None:
    place = Place(tmp_path, "parquet", "local")

    def start(flow: ps.Dataflow, name: str, **options: Any) -> ps.Query:  # noqa: ANN401 - passed on
        return flow.start(
            rows=ps.io.files(str(tmp_path / "in")),
            checkpoint=str(tmp_path / f"checkpoint of {name}"),
            output=str(tmp_path / name),
            **with_options(options, ps.QueryOptions(snapshots=SnapshotPolicy(epochs=1))),
        )

    def arrive(first: int, last: int) -> None:
        for day in range(first, last + 1):
            put(tmp_path / "in", str(day), {"k": [day, 7], "v": [day, 1]})

    arrive(0, 2)
    query = start(_flow(**BEFORE), "out")
    query.process_all_available(SECONDS_MAX)
    query.savepoint("before the change", SECONDS_MAX)
    query.stop()
    arrive(3, 4)
    kept = (str(tmp_path / "checkpoint of out"), "before the change")
    options: dict[str, Any] = {"accept_changes": True, "available_now": True, "savepoint": kept}
    with pytest.raises(RecoveryError, match="output more is new"):
        start(_flow(**BEFORE, more="v"), "new", **options).awaitTermination(SECONDS_MAX)
    assert start(_flow(sums="k v"), "new", **options).awaitTermination(SECONDS_MAX)
    assert place.seen("new") == {"sums": _sums(3, 4, "k", "v")}


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_that_were_committed_and_not_published_when_an_output_was_dropped_are_published(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, kind, "local")
    module: Any = import_module(f"pointstamp.connectors.{'published' if kind == 'parquet' else kind}.sink")
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
    with pytest.raises(
        RecoveryError, match=r"'keys' was dropped, and the sink _Unasked has no method check_out"
    ):
        run(_flow(sums="k v"), 5, accept=True)
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
            begin = staticmethod(inner.begin)
            publish = staticmethod(inner.publish)
            published_through = staticmethod(inner.published_through)
            discard = staticmethod(inner.discard)

        return Plain()


def test_a_sink_that_takes_any_output_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, "parquet", "local")
    for count, each in ((2, _flow(**BEFORE)), (4, _flow(sums="k v"))):
        query = each.start(
            rows=BATCHES[:count],
            checkpoint=str(place.folder / "checkpoint"),
            output=SqliteSink(str(place.folder / "db")),
            options=ps.QueryOptions(accept_changes=True),
        )
        assert query.await_termination(SECONDS_MAX)
        query.stop()


# Outputs that read the same inputs, of which the optimizer reads fewer columns without one of them.

_SHARING: dict[str, Callable[[ps.Table, ps.Table], ps.Table]] = {
    "sums": lambda orders, cities: orders.group_by("city").agg(price=ps.sum("price")),
    "counts": lambda orders, cities: orders.count("city"),
    "notes": lambda orders, cities: orders.filter(ps.col("price") > 3).select("id", "note"),
    "pairs": lambda orders, cities: orders.join(cities, "city").select("id", "zone"),
    "zones": lambda orders, cities: orders.join(cities, "city").group_by("zone").agg(n=ps.sum("amount")),
    "firsts": lambda orders, cities: orders.select("city", "price", "id").top(2, "city", by="price desc"),
    "different": lambda orders, cities: orders.select("city", "note").distinct(),
    "most": lambda orders, cities: orders.group_by("city").agg(most=ps.max("price"), least=ps.min("amount")),
}
_ORDERS = "id long, city string, price long, amount long, note string"
_DAYS = [
    pa.table(
        {
            "id": [day, day + 10, 7],
            "city": ["a", "b", "c"],
            "price": [day, 5 - day, 9],
            "amount": [1, 2 * day, 4],
            "note": ["x", str(day), "x"],
            "w": [1, 1, 1 if day % 2 == 0 else -1],
        }
    )
    for day in range(4)
]
_CITIES = [pa.table({"city": ["a", "b"], "zone": ["n", "s"]}), *([pa.table({"city": [], "zone": []})] * 3)]


def _sharing_flow(names: Collection[str], *, has_weights: bool) -> ps.Dataflow:
    flow = ps.Dataflow("shop")
    orders = (
        flow.table("orders", f"{_ORDERS}, w long", weight="w")
        if has_weights
        else flow.table("orders", _ORDERS)
    )
    cities = flow.table("cities", "city string, zone string")
    for name in names:
        flow.output(name, _SHARING[name](orders, cities))
    return flow


def _run_shop(flow: ps.Dataflow, place: Path, days: int, *, has_weights: bool) -> list[list[Any]]:
    orders = _DAYS[:days] if has_weights else [each.drop_columns("w") for each in _DAYS[:days]]
    empty = pa.schema([("city", pa.string()), ("zone", pa.string())])
    query = flow.start(
        {"orders": orders, "cities": [each.cast(empty) for each in _CITIES[:days]]},
        checkpoint=str(place / "checkpoint"),
        output=str(place / "out"),
        available_now=True,
        **with_options({"accept_changes": True}, ps.QueryOptions(snapshots=SnapshotPolicy(epochs=1))),
    )
    try:
        assert query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)
    (name, *_) = flow.plan.output_schemas()
    rows = Counter[tuple[Any, ...]]()
    for row in ps.read_changes(str(place / "out"), name).to_pylist():
        *values, weight = (value for column, value in row.items() if column != "epoch")
        rows[tuple(values)] += weight
    return sorted(([*row, count] for row, count in rows.items() if count), key=repr)


def _accepted(tmp_path: Path, kept: str, *, has_weights: bool) -> set[str]:
    """Drop each of the other outputs; return those without which the query resumes, with the right table."""
    accepted = set()
    fresh = _sharing_flow([kept], has_weights=has_weights)
    expected = _run_shop(fresh, tmp_path / "fresh", 4, has_weights=has_weights)
    for dropped in _SHARING.keys() - {kept}:
        place = tmp_path / dropped
        _run_shop(_sharing_flow([kept, dropped], has_weights=has_weights), place, 2, has_weights=has_weights)
        try:
            flow = _sharing_flow([kept], has_weights=has_weights)
            found = _run_shop(flow, place, 4, has_weights=has_weights)
        except RecoveryError:
            continue
        assert found == expected, f"without {dropped}"
        accepted.add(dropped)
    return accepted


@pytest.mark.parametrize("kept", _SHARING)
def test_an_output_that_reads_other_columns_of_an_input_can_be_dropped(kept: str, tmp_path: Path) -> None:
    refused = {"pairs": {"zones"}, "zones": {"pairs"}}  # their joins keep the columns of both
    assert _accepted(tmp_path, kept, has_weights=False) == _SHARING.keys() - {kept} - refused.get(kept, set())


@pytest.mark.parametrize("kept", ["sums", "pairs"])
def test_an_input_that_checks_deletions_by_other_columns_is_rejected_or_right(
    kept: str, tmp_path: Path
) -> None:
    assert _accepted(tmp_path, kept, has_weights=True) < _SHARING.keys() - {kept}
