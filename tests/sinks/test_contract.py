"""The contract of sinks: Parquet files, Delta tables, Kafka and the example with SQLite promise the same.

Families:
- visibility: what is staged is unseen, what is published is seen once and in whole epochs;
- repetition: a number that comes again changes nothing, one that comes with something else is refused;
- deaths: a process that dies before any step, and is followed by another one that does the same again, leaves
  what a process that never dies leaves; only this finds an order of steps that loses or doubles rows;
- two drivers: one that was replaced publishes what its successor has published, and nobody sees it;
- leftovers: what dead generations have staged is never seen, and goes;
- outputs: a sink says whether it can go on with them, and changes nothing by that.
"""

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from pointstamp.errors import RecoveryError, StorageError
from pointstamp.sinks.port import Sink, Staged
from sinks.harness import SCHEMAS, SUBJECTS, Died, Steps, Subject, batches, delta_steps, kafka_steps

OTHER = "_other names"
NOTHING: dict[str, list[tuple[int, int]]] = {"counts": [], OTHER: []}


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.kafka) if kind == "kafka" else kind for kind in SUBJECTS]
)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return SUBJECTS[request.param](tmp_path / "out")


def _stage(sink: Sink, generation: int, first: int, last: int) -> list[Staged]:
    """Two workers stage epochs first to last of one output, and the last of the other."""
    staged = []
    for worker in (0, 1):
        writer = sink.writer(worker, generation)
        staged += writer.stage("counts", {e: batches(10 * e + worker) for e in range(first, last + 1)})
    return staged + sink.writer(1, generation).stage(OTHER, {last: batches(last)})


def _expected(*groups: tuple[int, int]) -> dict[str, list[tuple[int, int]]]:
    counts = [(e, 10 * e + w) for first, last in groups for e in range(first, last + 1) for w in (0, 1)]
    return {"counts": sorted(counts), OTHER: [(last, last) for _, last in groups]}


def test_what_is_staged_is_unseen_and_what_is_published_is_seen_in_whole_epochs(subject: Subject) -> None:
    sink = subject.sink(Steps())
    publisher = sink.publisher()
    assert publisher.published_through() is None
    first, second = _stage(sink, 0, 0, 2), _stage(sink, 0, 3, 3)
    assert subject.seen() == NOTHING
    publisher.publish(0, 2, first)
    assert (subject.seen(), publisher.published_through()) == (_expected((0, 2)), 2)
    publisher.publish(1, 5, second)  # epochs 4 and 5 had no rows
    assert (subject.seen(), publisher.published_through()) == (_expected((0, 2), (3, 3)), 5)
    publisher.publish(2, 9, [])
    assert (subject.seen(), publisher.published_through()) == (_expected((0, 2), (3, 3)), 9)


def test_a_number_that_comes_again_changes_nothing_in_whatever_order_its_pieces_come(
    subject: Subject,
) -> None:
    sink = subject.sink(Steps())
    commits = [(0, 2, _stage(sink, 0, 0, 2)), (1, 3, _stage(sink, 0, 3, 3))]
    for number, through, staged in commits:
        sink.publisher().publish(number, through, staged)
    for number, through, staged in commits:
        sink.publisher().publish(number, through, staged[::-1])
    assert (subject.seen(), sink.publisher().published_through()) == (_expected((0, 2), (3, 3)), 3)


def test_other_content_under_a_number_and_numbers_out_of_turn_are_refused(subject: Subject) -> None:
    sink = subject.sink(Steps())
    publisher = sink.publisher()
    first, second, other = _stage(sink, 0, 0, 0), _stage(sink, 0, 1, 1), _stage(sink, 1, 0, 0)
    with pytest.raises(StorageError, match=r"commit 1 was given"):
        publisher.publish(1, 0, first)
    publisher.publish(0, 0, first)
    for staged, through in ((other, 0), (first, 1), (first[:1], 0), ([], 0)):
        with pytest.raises(StorageError, match=r"commit 0"):
            publisher.publish(0, through, staged)
    with pytest.raises(StorageError, match=r"commit 2 was given"):
        publisher.publish(2, 1, second)
    publisher.publish(1, 1, second)
    for number, staged in ((0, other), (1, other)):
        with pytest.raises(StorageError, match=rf"commit {number}"):
            publisher.publish(number, number, staged)
    assert subject.seen() == _expected((0, 0), (1, 1))


def _journey(subject: Subject, generation: int, steps: Steps, done: dict[int, list[Staged]]) -> None:
    """A generation from its beginning to the end of three commits; ``done`` is the journal."""
    sink = subject.sink(steps)
    publisher = sink.publisher()
    publisher.discard(generation, [piece for staged in done.values() for piece in staged])
    for number, staged in done.items():
        publisher.publish(number, number, staged)
    for number in range(len(done), 3):
        done[number] = _stage(sink, generation, number, number)
        publisher.publish(number, number, done[number])


def _steps_of(kind: str, folder: Path) -> int:
    whole = Steps()
    with delta_steps(whole), kafka_steps(whole):
        _journey(SUBJECTS[kind](folder / "whole"), 0, whole, {})
    assert whole.taken > 10
    return whole.taken


def _die_and_go_on(kind: str, folder: Path, deaths: Iterable[int]) -> None:
    for death in deaths:
        again = SUBJECTS[kind](folder / f"death-{death}")
        journal: dict[int, list[Staged]] = {}
        dying, living = Steps(dies_before=death), Steps()
        with delta_steps(dying), kafka_steps(dying), pytest.raises(Died):
            _journey(again, 0, dying, journal)
        seen = again.seen()["counts"]
        assert all((e, 10 * e + 1 - x % 10) in seen for e, x in seen), "half an epoch is seen"
        _journey(again, 1, living, journal)
        assert again.seen() == _expected((0, 0), (1, 1), (2, 2)), f"died before step {death}"


@pytest.mark.parametrize("kind", [kind for kind in SUBJECTS if kind != "kafka"])
def test_a_process_may_die_before_any_step_and_the_next_one_completes_its_work(
    kind: str, tmp_path: Path
) -> None:
    _die_and_go_on(kind, tmp_path, range(_steps_of(kind, tmp_path)))


@pytest.mark.kafka
def test_a_process_may_die_in_a_commit_to_kafka(tmp_path: Path) -> None:
    steps = _steps_of("kafka", tmp_path)
    _die_and_go_on("kafka", tmp_path, range(steps // 3, 2 * steps // 3, 2))


@pytest.mark.long
@pytest.mark.kafka
def test_a_process_may_die_before_any_step_of_commits_to_kafka(tmp_path: Path) -> None:
    _die_and_go_on("kafka", tmp_path, range(_steps_of("kafka", tmp_path)))


def test_a_driver_that_was_replaced_publishes_the_same_commits_and_nobody_sees_it(subject: Subject) -> None:
    sink = subject.sink(Steps())
    old, new = sink.publisher(), subject.sink(Steps()).publisher()
    commits = [(n, n, _stage(sink, 0, n, n)) for n in range(12)]
    for position, commit in enumerate(commits):
        new.publish(*commit)
        old.publish(*commits[max(0, position - 3)])
    assert subject.seen() == _expected(*((n, n) for n in range(12)))


def test_what_a_dead_generation_staged_is_never_seen_and_goes(subject: Subject, tmp_path: Path) -> None:
    sink = subject.sink(Steps())
    committed = _stage(sink, 0, 0, 0)
    sink.publisher().publish(0, 0, committed)
    in_the_journal, dead = _stage(sink, 0, 1, 1), _stage(sink, 0, 2, 2)
    sink.publisher().discard(1, [*committed, *in_the_journal])
    if not (tmp_path / "out/db").exists():
        assert not [each.path for each in dead if (tmp_path / "out" / each.path).exists()]
    sink.publisher().publish(1, 1, in_the_journal)
    again = _stage(sink, 1, 2, 2)
    sink.publisher().discard(1, [])  # its own generation's files stay
    sink.publisher().publish(2, 2, again)
    assert subject.seen() == _expected((0, 0), (1, 1), (2, 2))


def test_the_outputs_that_a_query_had_fit_at_any_time_and_asking_changes_nothing(
    subject: Subject, tmp_path: Path
) -> None:
    def stored() -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in (tmp_path / "out").rglob("*") if each.is_file()}

    sink = subject.sink(Steps())
    sink.publisher().check_outputs([])
    for number in range(3):
        staged = _stage(sink, 0, number, number)
        before = stored()
        sink.publisher().check_outputs(list(SCHEMAS))
        assert stored() == before
        sink.publisher().publish(number, number, staged)
    assert subject.seen() == _expected((0, 0), (1, 1), (2, 2))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_other_columns_under_a_name_that_is_published_do_not_fit(kind: str, tmp_path: Path) -> None:
    subject = SUBJECTS[kind](tmp_path / "out")
    sink = subject.sink(Steps())
    sink.publisher().publish(0, 0, _stage(sink, 0, 0, 0))
    changed = {**SCHEMAS, "counts": pa.schema([("x", pa.int32())])}
    with pytest.raises(RecoveryError, match=r"int32|integer.*nothing was changed|Nothing was changed"):
        sink.for_query("q", changed).publisher().check_outputs(list(SCHEMAS))
    assert subject.seen() == _expected((0, 0))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_sink_travels_to_the_workers(kind: str, tmp_path: Path) -> None:
    from pointstamp.sinks.delta import DeltaSink
    from pointstamp.sinks.parquet import ParquetSink

    make: Callable[[str], ParquetSink | DeltaSink] = ParquetSink if kind == "parquet" else DeltaSink
    sink = make(str(tmp_path)).for_query("q", SCHEMAS)
    there: Sink = pickle.loads(pickle.dumps(sink))  # noqa: S301 - just written here
    staged = there.writer(0, 0).stage("counts", {0: batches(1), 1: []})
    assert [(each.rows, each.first_epoch, each.last_epoch) for each in staged] == [(1, 0, 0)]
    assert there.writer(0, 0).stage("counts", {2: batches()}) == []
    sink.publisher().publish(0, 1, staged)
    assert sink.publisher().published_through() == 1
