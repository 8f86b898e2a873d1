"""Tables that are read from what is published: as they are and as they were, at a cost that does not grow.

Families, and what only each can find:
- random changes, compacted now and then, read as of every epoch beside a dictionary: a base that is wrong;
- a maker of bases that dies before any step, and readers that it overtakes: a base that is half there;
- bases that are damaged or gone: a reader that trusts them;
- cost: the bytes that are read, as the history grows;
- a query at work, and what cannot be asked.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from connectors.harness import stepping
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.connectors.published.bases import PLACE, Base, bases
from pointstamp.connectors.published.compactor import ParquetCompactor, compact
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.published.reader import read_table
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.errors import FlowError
from pointstamp.storage.memory import MemoryStorage
from pointstamp.testing import Died, Steps

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), DIFF_FIELD])
AT_ONCE = CompactionPolicy(files=2, keep_seconds=0)
Changes = dict[tuple[int, str | None], int]


def publish(storage: Any, first: int, epochs: list[Changes]) -> None:  # noqa: ANN401 - any storage
    sink = ParquetSink("memory", lambda _: storage).for_query("q", {"table": SCHEMA})
    writer, publisher = sink.writer(0, 0), sink.publisher()
    for epoch, changes in enumerate(epochs, first):
        rows = [{"x": x, "s": s, "diff": weight} for (x, s), weight in changes.items() if weight]
        batches = [pa.RecordBatch.from_pylist(rows, SCHEMA)] if rows else []
        publisher.publish(epoch, epoch, writer.stage("table", {epoch: batches}))


def seen(storage: Any, as_of: int | None = None) -> Counter[tuple[int, str | None]]:  # noqa: ANN401
    table = read_table("", "table", as_of=as_of, open_storage=lambda _: storage)
    assert table.column_names == ["x", "s"]
    return Counter((row["x"], row["s"]) for row in table.to_pylist())


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Changes], list[Counter[tuple[int, str | None]]]]:
    rows = st.tuples(st.integers(0, 3), st.sampled_from([None, "", "a"]))
    there: Counter[tuple[int, str | None]] = Counter()
    epochs, states = [], []
    for _ in range(draw(st.integers(1, 12))):
        wanted = draw(st.dictionaries(rows, st.integers(0, 2), max_size=4))
        epochs.append({row: count - there[row] for row, count in wanted.items()})
        there = Counter({row: count for row, count in {**there, **wanted}.items() if count})
        states.append(there)
    return epochs, states


@settings(max_examples=20, deadline=None)
@given(history=histories(), compacted=st.sets(st.integers(0, 11)), file_bytes=st.sampled_from([1_500, 10**6]))
def test_a_table_is_read_as_of_every_epoch_however_it_lies(
    history: tuple[list[Changes], list[Any]], compacted: set[int], file_bytes: int
) -> None:
    epochs, states = history
    storage = MemoryStorage()
    policy = CompactionPolicy(files=2, keep_seconds=0, file_bytes=file_bytes)
    for epoch, changes in enumerate(epochs):
        publish(storage, epoch, [changes])
        if epoch in compacted:
            compact("", policy, open_storage=lambda _: storage)
    for epoch, state in enumerate(states):
        assert seen(storage, epoch) == state, f"as of {epoch}"
    assert seen(storage) == states[-1]


HISTORY: list[Changes] = [
    {(n % 5, "a"): 1, (n % 5, "b"): 1 if n < 5 else -(1 if n < 10 else 0)} for n in range(12)
]
NOW = Counter({(n, "a"): 3 if n < 2 else 2 for n in range(5)})


def test_a_maker_of_bases_may_die_before_any_step_and_may_be_late(tmp_path: Path) -> None:
    place = str(tmp_path)
    publish(stepping(place, Steps()), 0, HISTORY)
    assert seen(stepping(place, Steps())) == NOW
    deaths = 0
    for step in range(10_000):
        steps = Steps(dies_before=step)
        try:
            compact("", AT_ONCE, open_storage=lambda _, steps=steps: stepping(place, steps))  # type: ignore[misc]
        except Died:
            deaths += 1
            assert seen(stepping(place, Steps())) == NOW, f"died before step {step}"
            continue
        break
    assert deaths > 10
    storage = stepping(place, Steps())
    assert [name for name in storage.list(PLACE) if name.endswith(".json")]
    # What those that died have left is removed when there is a newer base.
    publish(storage, len(HISTORY), [{(9, "z"): 1}])
    compact("", AT_ONCE, open_storage=lambda _: storage)
    compact("", AT_ONCE, open_storage=lambda _: storage)
    assert len({name.rpartition("/")[2][:12] for name in storage.list(PLACE)}) == 1
    assert seen(storage) == NOW + Counter([(9, "z")])


class Overtaken(MemoryStorage):
    """Before one of its reads more is published, and all is compacted and what was replaced removed."""

    before_read: int | None = None

    def read(self, name: str) -> bytes:
        if self.before_read == 0:
            self.before_read = None
            publish(self, len(HISTORY), [{(9, "z"): 1}])
            compact("", AT_ONCE, open_storage=lambda _: self)
            compact("", AT_ONCE, open_storage=lambda _: self)
        elif self.before_read is not None:
            self.before_read -= 1
        return super().read(name)


def test_a_reader_that_is_overtaken_reads_one_moment() -> None:
    for before_read in range(100):
        storage = Overtaken()
        publish(storage, 0, HISTORY)
        compact("", AT_ONCE, open_storage=lambda _, storage=storage: storage)  # type: ignore[misc]
        storage.before_read = before_read
        found = seen(storage)
        assert found in (NOW, NOW + Counter([(9, "z")])), f"overtaken before read {before_read}"
        if storage.before_read is not None:
            break
    assert before_read > 2


@pytest.mark.parametrize("ending", [".json", ".parquet"])
@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_a_base_that_is_damaged_or_gone_is_not_needed(ending: str, damage: str) -> None:
    storage = MemoryStorage()
    publish(storage, 0, HISTORY)
    compact("", AT_ONCE, open_storage=lambda _: storage)
    (name,) = [name for name in storage.list(PLACE) if name.endswith(ending)]
    if damage == "gone":
        storage.delete(name)
    else:
        storage.write(name, storage.read(name)[:-3] + b"xyz")
    assert seen(storage) == NOW


def test_a_reader_that_counts_what_the_base_has_once_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    publish(storage, 0, HISTORY)
    compact("", AT_ONCE, open_storage=lambda _: storage)
    right = bases

    def of_the_beginning(*given: Any) -> Iterator[Base]:  # noqa: ANN401 - as the function takes it
        return (msgspec.structs.replace(base, epoch=-1) for base in right(*given))

    monkeypatch.setattr("pointstamp.connectors.published.reader.bases", of_the_beginning)
    assert seen(storage) != NOW


class Weighing(MemoryStorage):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, name: str) -> bytes:
        content = super().read(name)
        self.read_bytes += len(content)
        return content

    def taken(self, act: Callable[[], object]) -> int:
        self.read_bytes = 0
        act()
        return self.read_bytes


def test_reading_does_not_cost_the_history() -> None:
    storage = Weighing()
    compactor = ParquetCompactor(storage, CompactionPolicy(keep_seconds=0))
    rows, taken = 2_000, {}
    for epoch in range(60):
        # Every epoch replaces all rows: the table stays as large as it is, and its history grows.
        changes: Changes = {(x, f"{epoch}"): 1 for x in range(rows)}
        changes |= {(x, f"{epoch - 1}"): -1 for x in range(rows)} if epoch else {}
        publish(storage, epoch, [changes])
        while compactor.turn():
            pass
        if epoch in (19, 59):
            taken[epoch] = storage.taken(lambda: seen(storage))
    assert seen(storage) == Counter({(x, "59"): 1 for x in range(rows)})
    assert taken[59] < 2 * taken[19], taken
    assert len([name for name in storage.list(PLACE) if name.endswith(".json")]) <= 2


def test_a_query_publishes_a_table_that_can_be_read_while_it_grows(tmp_path: Path) -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "sold", flow.table("sales", "shop string, price long").group_by("shop").agg(n=ps.sum("price"))
    )
    flow.output("prices", flow.stream_input("prices", "price long"))
    epochs = [[{"shop": "a", "price": 1}], [{"shop": "b", "price": 2}], [{"shop": "a", "price": 3}]]
    sink = ps.io.ParquetSink(str(tmp_path / "out"), partition_by={"sold": ["shop"]})
    query = flow.start(
        sales=epochs,
        prices=[[{"price": 1}], [], []],
        checkpoint=tmp_path / "c",
        output=sink,
        available_now=True,
    )
    query.await_termination(60)
    out = tmp_path / "out"
    for _ in range(2):
        now = ps.read_table(out, "sold").sort_by("shop").to_pylist()
        assert now == [{"shop": "a", "n": 4}, {"shop": "b", "n": 2}]
        assert ps.read_table(out, "sold", as_of=0).to_pylist() == [{"shop": "a", "n": 1}]
        ps.io.compact(out)
    with pytest.raises(FlowError, match=r"'prices' .* is a stream, not a table"):
        ps.read_table(out, "prices")
    with pytest.raises(FlowError, match="has the outputs 'sold', 'prices', but not 'sales'"):
        ps.read_table(out, "sales")
    with pytest.raises(FlowError, match=r"as_of must be an epoch from 0 to 2, got 3"):
        ps.read_table(out, "sold", as_of=3)


def test_results_have_tables_too() -> None:
    flow = ps.Dataflow("test")
    rows = flow.stream_input("rows", "n long, w long")
    flow.output("table", rows.to_table(weight="w"))
    flow.output("stream", rows)
    results = flow.run(rows=[[{"n": 1, "w": 2}, {"n": 2, "w": 1}], [{"n": 2, "w": -1}]])
    assert results.table("table").to_pylist() == [{"n": 1}, {"n": 1}]
    assert sorted(results.table("table", as_of=0)["n"].to_pylist()) == [1, 1, 2]
    with pytest.raises(FlowError, match="output 'stream' is a stream, not a table"):
        results.table("stream")
    with pytest.raises(FlowError, match="unknown output 'tabel'"):
        results.table("tabel")
