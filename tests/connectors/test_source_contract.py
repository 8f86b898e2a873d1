"""What every Source promises, tried on each implementation: the public claims (``pointstamp.testing``).

An implementation joins by adding one line to ``BENCHES``: a class that makes unit number n arrive. Families:
- the claims, on every source of the project and on the script of the testing kit;
- broken sources: one mistake each, which a claim must find.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import pointstamp as ps
from pointstamp.connectors.delta.source import delta
from pointstamp.connectors.files.source import files
from pointstamp.connectors.kafka.source import kafka
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.published.source import published
from pointstamp.connectors.source import Position, Source, Unit, Watch
from pointstamp.testing import ARRIVALS_MAX, SOURCE_SCHEMA, SourceSubject
from pointstamp.testing.source_claims import SourceClaim
from support.kafka_broker import address, new_topic, put, put_in_transaction


class RowsBench:
    """All batches are there from the start, so arriving does nothing."""

    is_ordered = True
    is_static = True

    def __init__(self, folder: Path) -> None:
        self.source: Source = Rows(
            tuple(pa.record_batch({"x": numbers_of(each)}) for each in range(ARRIVALS_MAX))
        )

    def arrive(self, number: int) -> list[int]:
        return numbers_of(number)


class FilesBench:
    """Each unit is a file, or two and a marker; renamed into a local folder, or put into a far one."""

    is_static = False

    def __init__(
        self, folder: Path, *, marker: str = "", lists: bool = False, far: bool = False, **arguments: object
    ) -> None:
        self.is_ordered = bool(arguments.get("in_order"))
        self._marker, self._lists = marker, lists
        self._path = f"memory:/{folder}" if far else str(folder)
        self._system: Any = fsspec.filesystem("memory") if far else None
        if marker:
            arguments["group_by_marker"] = marker
        self.source: Source = files(self._path, **arguments)  # type: ignore[arg-type]  # as the benches name them

    def arrive(self, number: int) -> list[int]:
        base = f"{number:04}" if self.is_ordered else f"{number * 7919 % 10007:05}"
        rows = numbers_of(number)
        if not self._marker:
            self._put(f"{base}.parquet", _parquet(rows))
            return rows
        names = [f"{base}-a.parquet", f"{base}-b.parquet"]
        self._put(names[0], _parquet(rows[:1]))
        self._put(names[1], _parquet(rows[1:]))
        self._put(f"{base}{self._marker}", "\n".join(names).encode() if self._lists else b"")
        return rows

    def _put(self, name: str, content: bytes) -> None:
        if self._system is not None:
            self._system.pipe(f"{self._path}/{name}", content)
        else:
            unfinished = Path(self._path) / f"{name}.tmp"
            unfinished.write_bytes(content)
            unfinished.rename(Path(self._path) / name)


class PublishedBench:
    """Each unit is an epoch that a sink has published; now and then what is there is merged."""

    is_ordered = True
    is_static = False

    def __init__(self, folder: Path, *, merges: bool = False, **arguments: Any) -> None:  # noqa: ANN401
        self._path, self._merges = f"{folder}/out", merges
        sink = ParquetSink(self._path, compaction=None).for_query("other", {"numbers": SOURCE_SCHEMA})
        self._writer, self._publisher = sink.writer(0, 1), sink.publisher()
        self.source: Source = published(self._path, "numbers", **arguments)

    def arrive(self, number: int) -> list[int]:
        rows = pa.record_batch({"x": numbers_of(number)})
        self._publisher.publish(number, number, self._writer.stage("numbers", {number: [rows]}))
        if self._merges and number % 3 == 2:
            ps.io.compact(self._path, ps.io.CompactionPolicy(keep_seconds=0))
        return numbers_of(number)


class DeltaBench:
    """Each unit is a version of a Delta table, to which rows are appended."""

    is_ordered = True
    is_static = False

    def __init__(self, folder: Path, look_every_seconds: float | None = None) -> None:
        self._path = str(folder / "table")
        write_deltalake(self._path, self._rows([]), configuration={"delta.enableChangeDataFeed": "true"})
        self.source: Source = delta(self._path, starting_version=1, look_every_seconds=look_every_seconds)

    def arrive(self, number: int) -> list[int]:
        write_deltalake(self._path, self._rows(numbers_of(number)), mode="append")
        return numbers_of(number)

    def _rows(self, numbers: list[int]) -> pa.Table:
        return pa.table({"x": pa.array(numbers, pa.int64())})


class KafkaBench:
    """Each unit is what was sent to a topic since the last poll: in transactions, marks lie between."""

    is_ordered = True
    is_static = False

    def __init__(self, folder: Path, *, has_transactions: bool = False, **arguments: Any) -> None:  # noqa: ANN401
        self._topic = new_topic()
        self._has_transactions = has_transactions
        self.source: Source = kafka(address(), self._topic, **arguments)

    def arrive(self, number: int) -> list[int]:
        values = [b'{"x": %d, "more": "of it"}' % each for each in numbers_of(number)]
        (put_in_transaction if self._has_transactions else put)(self._topic, values)
        return numbers_of(number)


def numbers_of(number: int) -> list[int]:
    return [number * 10 + each for each in range(3)]


def _parquet(numbers: list[int]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": numbers, "left": numbers}), buffer, row_group_size=1)
    return buffer.getvalue()


def bench(
    *, marker: str = "", lists: bool = False, far: bool = False, **arguments: object
) -> Callable[[Path], SourceSubject]:
    return lambda folder: FilesBench(folder, marker=marker, lists=lists, far=far, **arguments)


BENCHES: dict[str, Callable[[Path], SourceSubject]] = {
    "rows": RowsBench,
    "files": bench(),
    "files in order": bench(in_order=True),
    "files, all in a tick": bench(units_per_tick=None),
    "files, listed": bench(list_every_seconds=0),
    "files, far": bench(far=True, list_every_seconds=0),
    "files in order, far": bench(far=True, in_order=True, list_every_seconds=0),
    "groups": bench(marker="_done"),
    "groups in order": bench(marker="_done", in_order=True),
    "groups in order, listed": bench(marker="_done", in_order=True, list_every_seconds=0),
    "groups with lists": bench(marker="_done", lists=True),
    "published": PublishedBench,
    "published, merged": lambda folder: PublishedBench(folder, merges=True),
    "published, all in a tick": lambda folder: PublishedBench(folder, units_per_tick=None),
    "groups, far": bench(marker="_done", far=True, list_every_seconds=0),
    "versions": DeltaBench,
    "versions, looked for": lambda folder: DeltaBench(folder, 0.0),
    "topic": KafkaBench,
    "topic, in transactions": lambda folder: KafkaBench(folder, has_transactions=True),
}


class ScriptBench:
    """The groups of a script, all of them there."""

    is_ordered = True
    is_static = True

    def __init__(self, folder: Path) -> None:
        groups = [[{"x": each} for each in numbers_of(number)] for number in range(ARRIVALS_MAX)]
        self.source: Source = ps.testing.ScriptedSource(*groups)

    def arrive(self, number: int) -> list[int]:
        return numbers_of(number)


BENCHES["script"] = ScriptBench


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.kafka] if kind.startswith("topic") else []) for kind in BENCHES],
)
@pytest.mark.parametrize("claim", ps.testing.SOURCE_CLAIMS, ids=lambda claim: claim.__name__)
def test_every_source_keeps_the_contract(
    kind: str, claim: SourceClaim, tmp_path_factory: pytest.TempPathFactory
) -> None:
    claim(lambda: BENCHES[kind](tmp_path_factory.mktemp("in")))


# Broken sources.


@dataclass(frozen=True)
class BrokenRows(Rows):
    """Rows at hand, with a mistake."""

    mistake: str = ""

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        watch = Rows.watch(self, position, available_now=available_now)
        if self.mistake == "it gives the last unit again":
            return GivesAgain(watch)
        return watch

    def after(self, position: Position, unit: Unit) -> tuple[int, int, str]:
        taken, rows, seen = Rows.after(self, position, unit)
        if self.mistake == "its positions are not pure":
            return taken, rows, f"{seen}{next(NUMBERS)}"
        return taken, rows, seen

    def describe(self) -> str:
        return "" if self.mistake == "it does not say who it is" else Rows.describe(self)


NUMBERS = count()


@dataclass
class GivesAgain:
    """Another watch, whose last unit comes twice."""

    inner: Watch
    last: list[Unit] = field(default_factory=list)

    def poll(self) -> list[Unit]:
        found = [*self.last, *self.inner.poll()]
        self.last = found[-1:] if not self.last else []
        return found

    def fileno(self) -> int | None:
        return self.inner.fileno()

    @property
    def is_finished(self) -> bool:
        return self.inner.is_finished and not self.last

    def close(self) -> None:
        self.inner.close()


class BrokenBench(RowsBench):
    """Rows with a mistake."""

    def __init__(self, folder: Path, mistake: str) -> None:
        super().__init__(folder)
        assert isinstance(self.source, Rows)
        self.source = BrokenRows(self.source.batches, mistake=mistake)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("it gives the last unit again", "the rows taken with the order of seed"),
        ("its positions are not pure", "computed a second time"),
        ("it does not say who it is", "is a description in one line"),
    ],
)
def test_a_broken_source_is_found_by_a_claim(mistake: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        ps.testing.check_source(lambda: BrokenBench(tmp_path, mistake))
