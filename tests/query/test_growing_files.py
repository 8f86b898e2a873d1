"""Files that are still being written, and files that have changed, across restarts of a query.

Families, and what only each can find:
- *writers*: a process of its own writes a file slowly while queries begin and end: only this has a kernel
  that knows of a writer; each format, because each is torn in another way;
- *renewed*: a file that has grown, or has other bytes, is read again as long as nothing of it is committed,
  and rejected with an error after that; what is published is of one version of it, once.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.connectors.files.folder import Format
from pointstamp.errors import FlowError, OperatorError, SourceError
from support.options import with_options
from support.streams import published_by_epoch, until

WRITE_SLOWLY = """
import sys
import pyarrow as pa, pyarrow.parquet as pq

format, path = sys.argv[1:]
def rows(numbers):
    return pa.table({"x": list(numbers)})
with open(path, "wb") as file:
    if format == "parquet":
        writer = pq.ParquetWriter(file, rows([]).cast(pa.schema([("x", pa.int64())])).schema)
        writer.write_table(rows(range(500)))
    elif format == "csv":
        file.write(b"x\\n" + b"".join(b"%d\\n" % n for n in range(500)))
    else:
        file.write(b"".join(b'{"x": %d}\\n' % n for n in range(500)))
    file.flush()
    print("half", flush=True)
    sys.stdin.readline()
    if format == "parquet":
        writer.write_table(rows(range(500, 1000)))
        writer.close()
    elif format == "csv":
        file.write(b"".join(b"%d\\n" % n for n in range(500, 1000)))
    else:
        file.write(b"".join(b'{"x": %d}\\n' % n for n in range(500, 1000)))
"""


def copying(check: Any = None) -> ps.Dataflow:  # noqa: ANN401 - a function of a batch
    flow = ps.Dataflow("copying")
    stream = flow.stream_input("rows", "x long")
    flow.output("out", stream if check is None else stream.map_batches(check, "x long"))
    return flow


def started(place: Path, format_name: Format, flow: ps.Dataflow | None = None, **how: Any) -> ps.Query:  # noqa: ANN401
    return (flow or copying()).start(
        rows=ps.io.files(place / "in", format_name),
        checkpoint=place / "c",
        output=place / "o",
        **with_options(how),
    )


def put_rows(folder: Path, format_name: Format, name: str, *numbers: int) -> None:
    new = folder.parent / name
    if format_name == "parquet":
        pq.write_table(pa.table({"x": numbers}), new)
    elif format_name == "csv":
        new.write_text("x\n" + "".join(f"{number}\n" for number in numbers))
    else:
        new.write_text("".join(f'{{"x": {number}}}\n' for number in numbers))
    new.rename(folder / name)


def published(place: Path) -> dict[int, list[int]]:
    return {epoch: [x for (x,) in rows] for epoch, rows in published_by_epoch(place / "o", "out").items()}


# Writers.


@pytest.mark.parametrize("format_name", ["csv", "json", "parquet"])
@pytest.mark.parametrize("available_now", [False, True], ids=["continues", "available now"])
def test_a_file_that_is_being_written_is_taken_whole_or_not_at_all(
    format_name: Format, available_now: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    put_rows(folder, format_name, "0", -1)
    started(tmp_path, format_name, available_now=True).awaitTermination()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_SLOWLY, format_name, str(folder / "1")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == b"half\n"
        put_rows(folder, format_name, "2", -2)
        query = started(tmp_path, format_name, available_now=available_now)
        try:
            query.process_all_available()
            assert published(tmp_path) == {0: [-1], 1: [-2]}
            writer.stdin.write(b"continue\n")
            writer.stdin.close()
            assert writer.wait() == 0
            if available_now:
                query.await_termination()
                query = started(tmp_path, format_name, available_now=True)
                query.await_termination()
            else:
                until(lambda: query.epoch >= 2)
            assert query.restarts == 0
        finally:
            query.stop()
    finally:
        writer.kill()
        writer.wait()
        writer.stdin.close()
        writer.stdout.close()
    assert published(tmp_path) == {0: [-1], 1: [-2], 2: list(range(1000))}


# Renewed.


def refuse(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise ValueError("not today")


def accept(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def ticked_and_not_committed(place: Path, content: str) -> Path:
    """A file that a query has taken, and could not compute anything of."""
    (place / "in").mkdir()
    (place / "in" / "0").write_text(content)
    query = started(place, "csv", copying(refuse))
    with pytest.raises(OperatorError, match="not today"):
        query.await_termination()
    return place / "in" / "0"


@pytest.mark.parametrize("content", ["x\n1\n2\n", "x\n3\n"], ids=["it grew", "it has other bytes"])
@pytest.mark.parametrize("processes", [None, 2])
def test_a_file_that_has_changed_is_read_as_it_is_as_long_as_nothing_of_it_is_committed(
    content: str, processes: int | None, tmp_path: Path
) -> None:
    file = ticked_and_not_committed(tmp_path, "x\n1\n")
    file.write_text(content)
    query = started(
        tmp_path, "csv", copying(accept), processes=processes, available_now=True, accept_changes=True
    )
    query.await_termination()
    assert query.restarts == 0
    assert published(tmp_path) == {0: [int(line) for line in content.split()[1:]]}


def test_a_file_that_changes_while_it_waits_to_be_read_costs_a_restart_and_no_row(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "0"
    file.write_text("x\n1\n")

    class Grows:
        """The files of the folder; the first reader finds that the file was written to once more."""

        def __init__(self) -> None:
            self.inner, self.has_grown = ps.io.files(tmp_path / "in", "csv"), False
            self.units_per_tick = 1
            self.watch, self.after = self.inner.watch, self.inner.after
            self.renewed, self.describe = self.inner.renewed, self.inner.describe

        def read(self, part: Any, schema: pa.Schema) -> Any:  # noqa: ANN401
            if not self.has_grown:
                self.has_grown = True
                file.write_text("x\n1\n2\n")
            return self.inner.read(part, schema)

    query = copying().start(rows=Grows(), checkpoint=tmp_path / "c", output=tmp_path / "o")
    try:
        until(lambda: query.epoch >= 0 or not query.is_active)
        assert query.restarts == 1
    finally:
        query.stop()
    assert published(tmp_path) == {0: [1, 2]}


@pytest.mark.parametrize(
    "content", ["x,day\n1,0\n2,9\n7,9\n", "x,day\n1,0\n3,9\n"], ids=["it grew", "it has other bytes"]
)
def test_a_file_that_has_changed_after_some_of_it_was_committed_is_refused_at_once(
    content: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "0"
    file.write_text("x,day\n1,0\n2,9\n")
    query = started(tmp_path, "csv", epoch="day")
    query.process_all_available()
    query.advance("rows", 1)
    until(lambda: query.epoch >= 0)
    query.stop()
    file.write_text(content)
    query = started(tmp_path, "csv", epoch="day", available_now=True)
    with pytest.raises(
        SourceError, match="input 'rows': '0' was changed after a part of its rows was committed"
    ):
        query.await_termination()
    assert query.restarts == 0
    file.write_text("x,day\n1,0\n2,9\n")
    started(tmp_path, "csv", epoch="day", available_now=True).awaitTermination()
    assert published(tmp_path) == {0: [1], 9: [2]}


def test_a_file_of_which_nobody_knows_whether_it_is_written_waits_until_it_has_settled(
    tmp_path: Path,
) -> None:
    from pointstamp.connectors.files.wholeness import Seen, Settling, State

    now, stamp = [0.0], [1]
    settling = Settling(lambda _: Seen(State.UNKNOWN, stamp[0]), 1.0, lambda: now[0])
    assert settling.state("a") is State.UNKNOWN
    now[0] = 0.9
    stamp[0] = 2
    assert settling.state("a") is State.UNKNOWN
    now[0] = 1.8
    assert settling.state("a") is State.UNKNOWN
    now[0] = 2.0
    assert settling.state("a") is State.WHOLE


def test_settle_seconds_below_zero_are_refused() -> None:
    with pytest.raises(FlowError, match="settle_seconds must be 0 or more, got -1"):
        ps.io.files("/in", settle_seconds=-1)
