"""Rows at hand that come again to a checkpoint: the same continue, other rows are refused.

- *Runs*: what a run returns the second time is what it has returned the first, or an error that says what
  was taken before and what came; items may be added, in lists and by an epoch column; only these see that a
  result of other data is never handed out, wherever the first run was ended.
- *Queries*: the same for a list that ``start`` is given, over summaries of the journal and savepoints,
  where nothing but the position is left of what was taken.
- *Cost*: a fingerprint is made of each batch once for each start.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors import memory
from pointstamp.connectors.memory import Rows, fingerprint
from pointstamp.errors import FlowError
from pointstamp.journal import ledger
from support.options import with_options
from support.streams import SECONDS_MAX


def summing() -> ps.Dataflow:
    flow = ps.Dataflow("summing")
    numbers = flow.stream_input("numbers", "k string, v long")
    flow.output("sums", numbers.group_by("k", running=True).agg(sum=ps.sum("v")))
    return flow


def items(*values: list[int | None]) -> list[pa.Table]:
    return [pa.table({"k": ["a"] * len(each), "v": pa.array(each, pa.int64())}) for each in values]


def sums(given: Any, checkpoint: Path, **how: Any) -> dict[int, Any]:  # noqa: ANN401 - anything that holds rows
    found = summing().run(numbers=given, checkpoint=checkpoint, **how)["sums"]
    return {epoch: table.to_pylist() for epoch, table in found.items()}


# Runs.


def test_a_run_that_is_given_the_same_again_returns_the_same(tmp_path: Path) -> None:
    first = sums(items([1], [2, 3]), tmp_path)
    assert sums(items([1], [2, 3]), tmp_path, workers=2) == first
    again = [pa.concat_tables([each.slice(0, 0), each]) for each in items([1], [2, 3])]
    assert sums(again, tmp_path) == first, "other chunks, the same rows"


@pytest.mark.parametrize(
    ("given", "came"),
    [
        (items([1], [2, 4]), "as many rows with other values"),
        (items([1], [3, 2]), "as many rows with other values"),
        (items([1], [2, None]), "as many rows with other values"),
        (items([2, 3], [1]), "as many rows with other values"),
        (items([1], [2], [3]), "2 rows in place of these"),
        (items([1], [2, 3, 4]), "4 rows in place of these"),
        (items([1]), "1 item with 1 row"),
        ([], "0 items with 0 rows"),
    ],
    ids=[
        "a value",
        "an order",
        "a null",
        "items swapped",
        "a row less",
        "a row more",
        "an item less",
        "none",
    ],
)
def test_a_run_that_is_given_other_rows_is_refused_and_can_be_gone_on_with(
    given: list[pa.Table], came: str, tmp_path: Path
) -> None:
    first = sums(items([1], [2, 3]), tmp_path)
    words = (
        rf"input 'numbers': this checkpoint has already taken 2 items with 3 rows, .* has {came}\. .* begin"
    )
    with pytest.raises(FlowError, match=words):
        sums(given, tmp_path)
    assert sums(items([1], [2, 3], [4]), tmp_path) == {**first, 2: [{"k": "a", "sum": 10}]}


def test_one_table_is_one_item_that_must_stay_as_it_is(tmp_path: Path) -> None:
    sums(items([1, 2])[0], tmp_path)
    with pytest.raises(FlowError, match=r"has already taken 1 item with 2 rows, .* has 3 rows in place"):
        sums(items([1, 2, 3])[0], tmp_path)


@pytest.mark.parametrize("wide", [1, 192], ids=["epochs in a row", "wide gaps"])
def test_with_an_epoch_column_later_epochs_may_be_added_and_rows_of_old_ones_may_not(
    wide: int, tmp_path: Path
) -> None:
    def dated(*epochs: int) -> pa.Table:
        return pa.table(
            {"k": ["a"] * len(epochs), "v": list(epochs), "day": [each * wide for each in epochs]}
        )

    sums(dated(1, 0), tmp_path, epoch="day")
    found = sums(dated(2, 1, 0), tmp_path, epoch="day")
    assert found[2 * wide] == [{"k": "a", "sum": 3}]
    with pytest.raises(
        FlowError, match="input 'numbers': this checkpoint has already taken 3 items with 3 rows"
    ):
        sums(dated(2, 1, 0, 1), tmp_path, epoch="day")


# Queries.


def started(given: Any, place: Path, **how: Any) -> ps.Query:  # noqa: ANN401 - anything that holds rows
    return summing().start(numbers=given, checkpoint=place / "c", output=place / "o", **with_options(how))


def test_a_query_is_refused_after_its_journal_was_summarized_and_only_the_position_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SUMMARY_ENTRIES_MAX", 4)
    values: list[list[int | None]] = [[number] for number in range(12)]
    started(items(*values), tmp_path).awaitTermination(SECONDS_MAX)
    started(items(*values), tmp_path).awaitTermination(SECONDS_MAX)
    query = started(items([7], *values[1:]), tmp_path)
    with pytest.raises(FlowError, match="this checkpoint has already taken 12 items with 12 rows"):
        query.await_termination(SECONDS_MAX)
    assert query.restarts == 0


def test_a_query_that_begins_with_a_savepoint_goes_on_with_the_rows_that_were_taken_then(
    tmp_path: Path,
) -> None:
    flow = summing()
    flow.output("more", flow.stream_input("more", "v long"))  # which keeps the query from ending
    (tmp_path / "in").mkdir()
    more = ps.io.files(tmp_path / "in")

    def start(name: str, given: list[pa.Table], **how: Any) -> ps.Query:  # noqa: ANN401
        places: dict[str, Any] = {"checkpoint": tmp_path / name, "output": tmp_path / f"{name} out"}
        return flow.start(numbers=given, more=more, **places, **with_options(how))

    query = start("first", items([1], [2]))
    try:
        query.process_all_available(SECONDS_MAX)
        query.savepoint("here", SECONDS_MAX)
    finally:
        query.stop()
    how: dict[str, Any] = {"savepoint": (tmp_path / "first", "here"), "available_now": True}
    with pytest.raises(FlowError, match=r"has already taken 2 items with 2 rows, .* with other values"):
        start("second", items([1], [3]), **how).awaitTermination(SECONDS_MAX)
    start("third", items([1], [2], [3]), **how).awaitTermination(SECONDS_MAX)
    (row,) = ps.read_changes(tmp_path / "third out", "sums").to_pylist()
    assert row["sum"] == 6


def test_a_source_of_rows_without_a_name_gets_that_of_its_input(tmp_path: Path) -> None:
    (batch,) = items([1])[0].to_batches()
    started(Rows((batch,)), tmp_path).awaitTermination(SECONDS_MAX)
    with pytest.raises(FlowError, match="input 'numbers': this checkpoint"):
        started(Rows((batch.slice(1),)), tmp_path).awaitTermination(SECONDS_MAX)


# Cost.


def test_each_batch_is_looked_at_once_for_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(batch: pa.RecordBatch) -> str:
        looked.append(batch.num_rows)
        return fingerprint(batch)

    monkeypatch.setattr(memory, "fingerprint", counted)
    for wanted in ([1, 2], [1, 2, 1, 2]):
        sums(items([1], [2, 3]), tmp_path)
        assert looked == wanted
