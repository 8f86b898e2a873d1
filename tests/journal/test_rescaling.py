"""Other numbers of workers than a snapshot had: what cannot be dealt out is refused, and loses nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.errors import RecoveryError
from pointstamp.flow.plan import ShardFunction


class Largest:
    """Keeps the largest number of each worker, and says it for the rows of an epoch."""

    outputs = "x long"
    state: ClassVar = {"largest": ps.ports.saved.mapping("long", int)}

    def __init__(self) -> None:
        self.largest: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for x in batch["x"].to_pylist():
            self.largest[x % 3] = max(x, self.largest.get(x % 3, x))
        context.send(batch)


def test_rows_sent_ahead_to_state_without_an_exchange_are_not_dealt_out_to_other_workers(
    tmp_path: Path,
) -> None:
    flow = ps.Dataflow("ahead")
    numbers = flow.stream_input("numbers", "x long").exchange("x").map_batches(lambda batch: batch)
    flow.output("out", ps.operator("largest", Largest(), numbers=numbers.delay(2)))
    tables = [pa.table({"x": list(range(10 * epoch, 10 * epoch + 10))}) for epoch in range(4)]

    def run(tables: list[pa.Table], workers: int) -> list[int]:
        place = str(tmp_path / "checkpoint")
        output = str(tmp_path / "out")
        query = flow.start(
            numbers=tables, checkpoint=place, output=output, workers=workers, available_now=True
        )
        query.await_termination()
        return sorted(ps.read_changes(output, "out")["x"].to_pylist())

    assert run(tables[:2], 2) == []
    with pytest.raises(RecoveryError, match="'map' had sent rows for epoch 2 to operator largest without"):
        run(tables, 3)
    assert run(tables, 2) == list(range(20))


# Behind an exchange by a function.


class Counts:
    """Counts each number over all epochs."""

    outputs = "x long, n long"

    def __init__(self, way: ps.ports.saved.Saving) -> None:
        self.state = {"counts": way}
        self.counts: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for x in batch["x"].to_pylist():
            self.counts[x] = self.counts.get(x, 0) + 1
            context.send([{"x": x, "n": self.counts[x]}])


def pairs(batch: pa.RecordBatch) -> pa.Array:
    return pc.divide(batch.column(0), 2)


def threes(batch: pa.RecordBatch) -> pa.Array:
    return pc.divide(batch.column(0), 3)


def counted(
    flow: ps.Dataflow, tmp_path: Path, sizes: Sequence[int], *, taken: int = 0, verify: bool = False
) -> list[tuple[int, int, int]]:
    """Let each size of crew take one epoch more than before, and give what was published."""
    for epochs, workers in enumerate(sizes, taken + 1):
        query = flow.start(
            numbers=[pa.table({"x": list(range(12))})] * epochs,
            checkpoint=tmp_path / "checkpoint",
            output=tmp_path / "out",
            workers=workers,
            available_now=True,
            options=ps.QueryOptions(verify=verify),
        )
        query.await_termination()
    found = ps.read_changes(str(tmp_path / "out"), "out")
    return sorted(zip(*(found[name].to_pylist() for name in ("epoch", "x", "n")), strict=True))


EVERY_EPOCH_COUNTS = [(epoch, x, epoch + 1) for epoch in range(3) for x in range(12)]


def test_state_by_the_columns_of_a_function_is_dealt_out_by_that_function(tmp_path: Path) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long").exchange("x", by=pairs)
    flow.output("out", ps.operator("counts", Counts(ps.ports.saved.mapping("long", int)), numbers=numbers))
    assert counted(flow, tmp_path, (2, 3, 1), verify=True) == EVERY_EPOCH_COUNTS


def test_state_behind_a_function_of_whole_rows_goes_on_on_as_many_workers_and_no_others(
    tmp_path: Path,
) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long").exchange(by=pairs)
    flow.output("out", ps.operator("counts", Counts(ps.ports.saved.mapping("long", int)), numbers=numbers))
    assert counted(flow, tmp_path, (2, 2)) == EVERY_EPOCH_COUNTS[:24]
    said = (
        "operator counts has the state 'counts', which was saved by a number of workers other than "
        "3 downstream of an exchange by pairs, and its keys alone do not determine the worker that owns them"
        r".*exchange\('key', by=\.\.\.\)"
    )
    with pytest.raises(RecoveryError, match=said):
        counted(flow, tmp_path, (3,), taken=2)
    assert counted(flow, tmp_path, (2,), taken=2) == EVERY_EPOCH_COUNTS


def test_state_that_inputs_reach_by_function_and_by_hash_is_not_dealt_out(tmp_path: Path) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long")
    one, other = numbers.exchange("x", by=pairs), numbers.filter(pc.field("x") < 0).exchange("x")
    flow.output(
        "out", ps.operator("counts", Counts(ps.ports.saved.mapping("long", int)), one=one, other=other)
    )
    with pytest.raises(RecoveryError, match="rows reach it by pairs of x and by x: it is ambiguous by which"):
        counted(flow, tmp_path, (2, 3))


@pytest.mark.parametrize("is_turned", [False, True])
def test_state_that_inputs_reach_by_different_functions_is_not_dealt_out(
    is_turned: bool, tmp_path: Path
) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long")
    inputs = [numbers.exchange("x", by=pairs), numbers.filter(pc.field("x") < 0).exchange("x", by=threes)]
    one, other = inputs[::-1] if is_turned else inputs
    flow.output(
        "out", ps.operator("counts", Counts(ps.ports.saved.mapping("long", int)), one=one, other=other)
    )
    with pytest.raises(
        RecoveryError, match=r"rows reach it by (pairs|threes) of x and by (threes|pairs) of x: it is"
    ):
        counted(flow, tmp_path, (2, 3))


def test_inputs_by_one_function_of_their_own_columns_share_state(tmp_path: Path) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long")
    named = numbers.map_batches(
        lambda batch: pa.record_batch({"x": batch["x"], "y": batch["x"]}), "x long, y long"
    )
    one, other = numbers.exchange("x", by=pairs), named.exchange("y", by=pairs)
    flow.output(
        "out", ps.operator("counts", Counts(ps.ports.saved.mapping("long", int)), one=one, other=other)
    )
    twice = [(epoch, x, 2 * epoch + n) for epoch in range(3) for x in range(12) for n in (1, 2)]
    assert counted(flow, tmp_path, (2, 3, 1)) == twice


class Tables(Counts):
    """Keeps the same as a table, by keys that are no columns of the exchange."""

    def __init__(self, keys: dict[str, pa.DataType]) -> None:
        super().__init__(ps.ports.saved.arrow(keys=list(keys)))
        self.counts = pa.table({name: pa.array([1], kind) for name, kind in keys.items()})

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send([{"x": x, "n": 1} for x in batch["x"].to_pylist()])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"x": pa.int64(), "y": pa.int64()},
            "but its keys are x, y, and the function needs the columns of the exchange",
        ),
        (
            {"x": pa.decimal128(9, 2)},
            "has keys whose types differ from those of the exchange by pairs of x upstream",
        ),
    ],
    ids=["two for one", "another type"],
)
def test_state_by_other_keys_than_the_columns_of_the_function_is_not_dealt_out(
    keys: dict[str, pa.DataType], said: str, tmp_path: Path
) -> None:
    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long").exchange("x", by=pairs)
    flow.output("out", ps.operator("counts", Tables(keys), numbers=numbers))
    counted(flow, tmp_path, (2,))
    with pytest.raises(RecoveryError, match=f"operator counts has the state 'counts', which .*{said}"):
        counted(flow, tmp_path, (3,), taken=1)


def test_another_function_before_state_is_another_flow(tmp_path: Path) -> None:
    def flow(by: ShardFunction | None) -> ps.Dataflow:
        made = ps.Dataflow("counts")
        numbers = made.stream_input("numbers", "x long").exchange("x", by=by)
        way = ps.ports.saved.mapping("long", int)
        made.output("out", ps.operator("counts", Counts(way), numbers=numbers))
        return made

    counted(flow(pairs), tmp_path, (2,))
    with pytest.raises(
        RecoveryError, match=r"operator counts: input 'numbers' was .*ExchangeByFunction.*, is .*ExchangeBy\("
    ):
        counted(flow(None), tmp_path, (2,), taken=1)
