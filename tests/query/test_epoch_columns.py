"""An epoch column may be a declared one, which stays in the rows, on this machine.

On Spark the same table of cases runs in ``tests/spark/test_run.py`` and ``tests/spark/test_start.py``.

Families, and what only each can find:
- *ways*: each case on every way to run, compared with an oracle in plain Python: only these find a way that
  takes the column away, leaves it where it was not declared, or sorts rows into other epochs;
- *again*: a query that is ended while epochs are open, whose rows are read a second time by more workers;
- *types and values*: every integer type, and as text what cannot be an epoch; before anything starts where
  the declared type says so.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.arrow.epoch_column import EPOCH_MAX
from pointstamp.errors import FlowError, SchemaError
from pointstamp.query.local_query import EPOCH
from support.dated import CASES, Case, Outputs, by_epoch
from support.streams import published_by_epoch, until

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def told(results: ps.Results) -> Outputs:
    return by_epoch({name: output.table().to_pylist() for name, output in results.items()})


def published(flow: ps.Dataflow, path: Path) -> Outputs:
    return {name: published_by_epoch(path, name) for name in flow.plan.output_schemas()}


def items(case: Case) -> dict[str, Any]:
    """Each item as one that comes together."""
    return {
        "sales": [case.sales(item) for item in case.items],
        "visits": [case.visits(item) for item in case.items],
    }


def files(case: Case, folder: Path) -> dict[str, Any]:
    """Each item as a file, with a column that nobody asks for."""
    for name, tables in items(case).items():
        (folder / name).mkdir(parents=True)
        for number, table in enumerate(tables):
            extra = table.append_column("unused", pa.nulls(table.num_rows))
            pq.write_table(extra, folder / name / f"{number}.parquet")
    return {name: ps.io.files(folder / name) for name in ("sales", "visits")}


# Ways.


@every_case
@pytest.mark.parametrize("workers", [1, 3])
def test_a_declared_epoch_column_says_the_epoch_and_stays_in_the_rows(case: Case, workers: int) -> None:
    flow, wanted = case.flow(), case.expected()
    assert told(flow.run(items(case), epoch="day", workers=workers)) == wanted
    together = {"sales": case.sales(case.rows[::-1]), "visits": case.visits(case.rows[::-1])}
    assert told(flow.run(together, epoch={"sales": "day", "visits": "day"}, workers=workers)) == wanted


def test_processes_keep_the_column_too() -> None:
    case = CASES[0]
    assert told(case.flow().run(items(case), epoch="day", processes=2)) == case.expected()


@every_case
def test_a_run_with_a_checkpoint_keeps_it_the_first_time_and_the_second(case: Case, tmp_path: Path) -> None:
    for _ in range(2):
        found = case.flow().run(items(case), epoch="day", checkpoint=tmp_path / "c", workers=2)
        assert told(found) == case.expected()


@pytest.mark.parametrize(
    ("case", "source"),
    [*((case, "files") for case in CASES), (CASES[1], "tables")],
    ids=lambda each: each.name if isinstance(each, Case) else each,
)
def test_a_query_on_files_or_tables_keeps_it(case: Case, source: str, tmp_path: Path) -> None:
    given = files(case, tmp_path / "in") if source == "files" else items(case)
    query = case.flow().start(
        given,
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
        workers=2,
        available_now=True,
        options=ps.QueryOptions(epoch="day"),
    )
    query.await_termination()
    assert published(case.flow(), tmp_path / "o") == case.expected()


def test_rows_of_an_input_without_an_epoch_column_come_beside_those_of_one_with_it(tmp_path: Path) -> None:
    flow = ps.Dataflow("beside")
    sales, plain = (
        flow.stream_input("sales", "day long, amount long"),
        flow.stream_input("plain", "day long, amount long"),
    )
    flow.output("all", sales.union(plain))
    given = {
        "sales": pa.table({"day": [1, 0], "amount": [1, 2]}),
        "plain": pa.table({"day": [1], "amount": [3]}),
    }
    wanted = {"all": {0: [(0, 2), (1, 3)], 1: [(1, 1)]}}
    assert told(flow.run(given, epoch={"sales": "day"})) == wanted
    assert told(flow.run(given, epoch={"sales": "day"}, checkpoint=tmp_path)) == wanted


def test_a_column_that_is_named_like_the_one_of_rows_at_hand_stays_too(tmp_path: Path) -> None:
    flow = ps.Dataflow("named")
    flow.output("out", flow.stream_input("rows", pa.schema([(EPOCH, pa.int64())])))
    table = pa.table({EPOCH: [0, 576]})
    wanted = {"out": {epoch: [(epoch,)] for epoch in (0, 576)}}
    assert told(flow.run(rows=table, epoch=EPOCH, checkpoint=tmp_path)) == wanted


# Again.


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_of_open_epochs_are_read_again_with_their_column(workers: int, tmp_path: Path) -> None:
    case = Case("again", "int", [[(3, 30), (0, 10), (1, 10)], [(2, 10), (3, 30), (5, 7)]])
    files(case, tmp_path / "in")
    later = {name: (tmp_path / "in" / name / "1.parquet").rename(tmp_path / name) for name in items(case)}
    sources = {name: ps.io.files(tmp_path / "in" / name) for name in later}
    places: dict[str, Any] = {
        "checkpoint": tmp_path / "c",
        "output": tmp_path / "o",
        "options": ps.QueryOptions(epoch="day"),
    }
    query = case.flow().start(sources, **places)
    try:
        query.process_all_available()  # only what was taken may be of epochs that are then complete
        for name in sources:
            query.advance(name, 2)
        until(lambda: query.epoch >= 1)
    finally:
        query.stop(finish=False)
    before = {
        name: {day: rows for day, rows in epochs.items() if day < 2}
        for name, epochs in case.expected().items()
    }
    assert published(case.flow(), tmp_path / "o") == before
    for name, place in later.items():
        place.rename(tmp_path / "in" / name / "1.parquet")
    case.flow().start(sources, workers=workers, available_now=True, **places).await_termination()
    assert published(case.flow(), tmp_path / "o") == case.expected()


def test_a_row_of_an_epoch_that_was_said_to_be_complete_is_refused(tmp_path: Path) -> None:
    case = Case("late", "long", [[(4, 1), (1, 2)]])
    query = case.flow().start(
        files(case, tmp_path / "in"),
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
        options=ps.QueryOptions(epoch="day"),
    )
    try:
        query.process_all_available()
        for name in ("sales", "visits"):
            query.advance(name, 3)
        until(lambda: query.epoch >= 2)
        pq.write_table(case.sales([(2, 9)]), tmp_path / "late")
        (tmp_path / "late").rename(tmp_path / "in" / "sales" / "late.parquet")
        with pytest.raises(FlowError, match=r"input 'sales' has a row of epoch 2 .* advanced to epoch 3"):
            query.await_termination()
    finally:
        query.stop(finish=False)


# Types and values.


def copying(declared: pa.DataType | None) -> ps.Dataflow:
    """A copy, of an input that declares its epoch column as a type, or does not declare it."""
    flow = ps.Dataflow("copying")
    fields = [("x", pa.int64())] if declared is None else [("x", pa.int64()), ("day", declared)]
    flow.output("out", flow.stream_input("rows", pa.schema(fields)))
    return flow


def ways(flow: ps.Dataflow, rows: pa.Table, folder: Path) -> list[Any]:
    """Every way to run on this machine, on rows at hand and on a file."""
    (folder / "in").mkdir()
    pq.write_table(rows, folder / "in" / "0.parquet")

    def query(number: int, given: object) -> Outputs:
        places: dict[str, Any] = {"checkpoint": folder / f"c{number}", "output": folder / f"o{number}"}
        flow.start(
            rows=given, available_now=True, options=ps.QueryOptions(epoch="day"), **places
        ).await_termination()
        return published(flow, folder / f"o{number}")

    return [
        lambda: told(flow.run(rows=rows, epoch="day")),
        lambda: told(flow.run(rows=rows, epoch="day", checkpoint=folder / "c")),
        lambda: query(1, rows),
        lambda: query(2, ps.io.files(folder / "in")),
    ]


@pytest.mark.parametrize("declared", INTEGERS, ids=str)
def test_a_declared_epoch_column_may_be_of_any_integer_type(declared: pa.DataType, tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3], "day": pa.array([7, 0, 7], declared)})
    for run in ways(copying(declared), rows, tmp_path):
        assert run() == {"out": {0: [(2, 0)], 7: [(1, 7), (3, 7)]}}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (pa.date32(), r"got date32\[day\]\. .* unix_date\(day\) in Spark"),
        (pa.timestamp("us"), r"got timestamp\[us\]\. .* unix_date\(to_date\(day\)\) in Spark"),
        (pa.string(), r"got string\. .* whole numbers from 0 up"),
        (pa.float64(), r"got double\. .* or name another column"),
        (pa.bool_(), r"got bool\. "),
    ],
    ids=str,
)
def test_a_declared_type_that_is_no_integer_is_refused_before_anything_starts(
    declared: pa.DataType, said: str, tmp_path: Path
) -> None:
    rows = pa.table({"x": [1], "day": pa.nulls(1, declared)})
    for run in ways(copying(declared), rows, tmp_path):
        with pytest.raises(
            SchemaError, match=f"input 'rows': the epoch column 'day' must be an integer, {said}"
        ):
            run()
    assert [each.name for each in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("declared", [pa.int64(), None], ids=["declared", "not declared"])
@pytest.mark.parametrize(
    ("day", "said"),
    [
        (None, "input 'rows': the epoch column 'day' has nulls, but every row needs an epoch"),
        (-1, "input 'rows': epochs must be 0 or more, got a row of epoch -1"),
        (
            EPOCH_MAX + 1,
            f"input 'rows': epochs must be at most {EPOCH_MAX}, got a row of epoch {EPOCH_MAX + 1}",
        ),
    ],
    ids=["null", "negative", "too large"],
)
def test_a_value_that_is_no_epoch_is_refused_in_the_same_words_on_every_way(
    day: int | None, said: str, declared: pa.DataType | None, tmp_path: Path
) -> None:
    rows = pa.table({"x": [1, 2], "day": pa.array([0, day], pa.int64())})
    for run in ways(copying(declared), rows, tmp_path):
        with pytest.raises(SchemaError, match=said):
            run()


def test_the_last_epoch_that_there_is_can_be_run(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2], "day": pa.array([EPOCH_MAX, 0], pa.uint64())})
    for run in ways(copying(pa.uint64()), rows, tmp_path):
        assert run() == {"out": {0: [(2, 0)], EPOCH_MAX: [(1, EPOCH_MAX)]}}


def test_a_value_that_no_signed_integer_can_be_is_refused_as_too_large(tmp_path: Path) -> None:
    rows = pa.table({"x": [1], "day": pa.array([2**64 - 1], pa.uint64())})
    for run in ways(copying(pa.uint64()), rows, tmp_path):
        with pytest.raises(SchemaError, match=f"epochs must be at most .* got a row of epoch {2**64 - 1}"):
            run()
