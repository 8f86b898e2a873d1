"""The contract of sinks: Parquet files, Delta tables and the example with SQLite keep the same promises.

Families:
- the public claims (``pointstamp.testing``), on each of them;
- outputs and travel: what only some sinks can be asked;
- broken sinks: one mistake each, which a claim must find.
"""

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from connectors.harness import SCHEMAS, SUBJECTS, Sqlite, batches
from connectors.sqlite_sink import SqliteSink
from pointstamp.connectors.sink import Epochs, Sink, Staged, complete_publisher
from pointstamp.errors import RecoveryError, StorageError
from pointstamp.testing import Steps
from pointstamp.testing.sink_claims import SinkClaim


def _judged() -> list[Any]:
    """Each sink with each claim; where a process dies at every step of Delta's, that is long."""
    return [
        pytest.param(
            kind,
            claim,
            id=f"{claim.__name__}-{kind}",
            marks=[pytest.mark.long] if kind == "delta" and "may_die" in claim.__name__ else [],
        )
        for claim in ps.testing.SINK_CLAIMS
        for kind in SUBJECTS
    ]


@pytest.mark.parametrize(("kind", "claim"), _judged())
def test_every_sink_keeps_the_contract(kind: str, claim: SinkClaim, tmp_path: Path) -> None:
    numbers = count()
    claim(lambda: SUBJECTS[kind](tmp_path / f"out-{next(numbers)}"))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_other_columns_under_a_name_that_is_published_do_not_fit(kind: str, tmp_path: Path) -> None:
    subject = SUBJECTS[kind](tmp_path / "out")
    with subject.process(Steps()) as given:
        sink = given.for_query("q", SCHEMAS)
        sink.publisher().publish(0, 0, sink.writer(0, 0).stage("counts", {0: batches(7)}))
        changed = {**SCHEMAS, "counts": pa.schema([("x", pa.int32())])}
        with pytest.raises(RecoveryError, match=r"int32|integer.*nothing was changed|Nothing was changed"):
            complete_publisher(sink.for_query("q", changed).publisher()).check_outputs(list(SCHEMAS))
    assert subject.seen()["counts"] == [(0, 7)]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_sink_travels_to_the_workers(kind: str, tmp_path: Path) -> None:
    kinds: dict[str, Callable[[str], ps.io.ParquetSink | ps.io.DeltaSink]]
    kinds = {"parquet": ps.io.ParquetSink, "delta": ps.io.DeltaSink}
    sink = kinds[kind](str(tmp_path)).for_query("q", SCHEMAS)
    there: Sink = pickle.loads(pickle.dumps(sink))  # noqa: S301 - just written here
    staged = there.writer(0, 0).stage("counts", {0: batches(1), 1: []})
    assert [(each.rows, each.first_epoch, each.last_epoch) for each in staged] == [(1, 0, 0)]
    assert there.writer(0, 0).stage("counts", {2: batches()}) == []
    sink.publisher().publish(0, 1, staged)
    assert sink.publisher().published_through() == 1


# Broken sinks.


class CountsNothing(SqliteSink):
    """A number that comes again is published again."""

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        is_there = "SELECT count(*) FROM commits WHERE number = ?"
        again = "INSERT INTO published SELECT token, epoch, row FROM staged WHERE token = ?"
        if self._at_once(lambda db: db.execute(is_there, [number]).fetchone()[0]):
            tokens = [[piece.path] for piece in staged]
            self._at_once(lambda db: db.executemany(again, tokens).rowcount)
        super().publish(number, epochs_through, staged)


class NotesItsNumberFirst(SqliteSink):
    """The number is one transaction, the rows are another."""

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        super().publish(number, epochs_through, staged)
        tokens = [piece.path for piece in staged]
        rows = [row for token in tokens for row in self._taken_away(token)]
        self._at_once(lambda db: db.executemany("INSERT INTO published VALUES (?, ?, ?)", rows).rowcount)

    def _taken_away(self, token: str) -> list[tuple[str, int, str]]:
        with closing(self.connect(self.path)) as db, db:
            rows = db.execute("SELECT * FROM published WHERE token = ?", [token]).fetchall()
            db.execute("DELETE FROM published WHERE token = ?", [token])
            return rows


class ShowsWhatIsStaged(SqliteSink):
    """Readers see rows before their commit."""

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        staged = super().stage(output, epochs)
        show = "INSERT INTO published SELECT token, epoch, row FROM staged WHERE token = ?"
        self._at_once(lambda db: db.execute(show, [staged[0].path]).rowcount)
        return staged


class KeepsTheDead(SqliteSink):
    """What dead generations have staged stays for ever."""

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Nothing goes."""


class TakesAnyNumber(SqliteSink):
    """A number in between may be missing."""

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        fill = "INSERT OR IGNORE INTO commits VALUES (?, ?, '')"
        numbers = [(each, epochs_through) for each in range(number)]
        self._at_once(lambda db: db.executemany(fill, numbers).rowcount)
        super().publish(number, epochs_through, staged)


class HasNoMark(SqliteSink):
    """Nothing is stored before the first commit."""

    def begin(self) -> None:
        pass


class TakesAMarkForACommit(SqliteSink):
    """The mark of a late driver is the last commit."""

    def published_through(self) -> int | None:
        sql = "SELECT through FROM commits ORDER BY number > -1, rowid DESC"
        return self._at_once(lambda db: (db.execute(sql).fetchone() or [None])[0])


class TakesSilenceForNothing(SqliteSink):
    """A database that does not answer is taken for one without commits."""

    def published_through(self) -> int | None:
        try:
            return super().published_through()
        except StorageError:
            return None


class OverlooksTheFirstCommit(SqliteSink):
    """Commit 0 is taken for none."""

    def published_through(self) -> int | None:
        return super().published_through() or None


class PublishesWhatWasPrepared(SqliteSink):
    """What was prepared for a number is published under it, whatever is given."""

    @contextmanager
    def prepared(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> Iterator[None]:
        PREPARED[self.path, number] = (epochs_through, staged)
        yield

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        super().publish(number, *PREPARED.get((self.path, number), (epochs_through, staged)))


PREPARED: dict[tuple[str, int], tuple[int, Sequence[Staged]]] = {}


class ShowsWhatIsPrepared(SqliteSink):
    """A commit is seen before it is in the journal."""

    @contextmanager
    def prepared(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> Iterator[None]:
        self.publish(number, epochs_through, staged)
        yield


class ForgetsWhenAsked(SqliteSink):
    """A question changes what is stored."""

    def check_outputs(self, before: Collection[str]) -> None:
        self._at_once(lambda db: db.execute("DELETE FROM staged").rowcount)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (CountsNothing, "after both commits came twice"),
        (NotesItsNumberFirst, "is seen after a death before step"),
        (ShowsWhatIsStaged, "before the first commit"),
        (KeepsTheDead, "whether dead pieces are stored"),
        (TakesAnyNumber, "nothing was refused"),
        (ForgetsWhenAsked, "after check_outputs"),
        (HasNoMark, r"published_through\(\) after begin\(\) once"),
        (TakesAMarkForACommit, r"published_through\(\) after a late begin\(\)"),
        (TakesSilenceForNothing, "where nothing answers from step"),
        (OverlooksTheFirstCommit, "after commit 0"),
        (PublishesWhatWasPrepared, "after another commit was prepared"),
        (ShowsWhatIsPrepared, "after a preparation that failed|is seen after a death"),
    ],
)
def test_a_broken_sink_is_found_by_a_claim(broken: type[SqliteSink], said: str, tmp_path: Path) -> None:
    numbers = count()

    def new() -> Sqlite:
        return Sqlite(tmp_path / f"out-{next(numbers)}", broken)

    with pytest.raises(AssertionError, match=said):
        ps.testing.check_sink(new)
