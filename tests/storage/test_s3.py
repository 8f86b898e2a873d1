"""Checkpoints and output on S3: conditional writes are what they rest on, so they are shown on a real server.

Families, and what only each can find:
- races: two processes create the same objects through the library that queries use, and one wins each;
- trials: a store that lets two writers of the same instant pass is refused when a query starts, although it
  refuses a second writer that comes later;
- kills: a driver is killed instead of being answered, and the next one continues: no row is lost or doubled;
- shortening: a process that merges published files, or shortens a journal, is killed at several moments, on a
  store that has no rename: readers see the same rows as before, and the next one ends the work;
- counts: the requests that one commit takes, and how many of them go side by side.
"""

import signal
from collections import Counter
from collections.abc import Iterator

import fsspec
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import AlreadyStored, StorageError
from pointstamp.journal.journal import Journal
from pointstamp.query.start_checks import query_id_at
from pointstamp.storage.anywhere import FsspecStorage
from pointstamp.storage.exclusivity import check_exclusive
from support.s3 import BUCKET, S3
from support.store_drivers import words_of
from support.store_processes import SECONDS_MAX, driver, race

ROUNDS = 25
EPOCHS = 5
COMMITS = 12
ENTRIES = 9
DEATHS = 6
REQUESTS_PER_COMMIT_MAX = 20
TRIALS = 80  # of checkpoint and output
BEGINNING_MAX = 60
DIES_BEFORE = TRIALS + 50  # in the second commit or the third


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


def test_of_two_processes_that_create_the_same_object_exactly_one_wins(s3: S3) -> None:
    race(f"s3://{BUCKET}/race", ROUNDS, s3.environment)


def test_a_store_that_keeps_its_promise_passes_the_trial_and_nothing_is_left(s3: S3) -> None:
    storage = FsspecStorage(f"s3://{BUCKET}/trial", s3.options)
    assert storage.needs_trial
    check_exclusive(storage)
    assert storage.list() == []


def test_a_store_that_lies_under_a_race_is_refused_when_a_query_starts(s3: S3) -> None:
    storage = FsspecStorage(f"s3://{BUCKET}/lies", s3.options)
    sink = ps.io.ParquetSink(f"s3://{BUCKET}/out", lambda path: FsspecStorage(path, s3.options))
    with s3.lying():
        storage.create("one", b"1")
        with pytest.raises(AlreadyStored, match="there is already an object 'one'"):
            storage.create("one", b"2")  # to who asks in turn, it says the truth
        with pytest.raises(StorageError, match=r"4 writers .* and [234] of them .*If-None-Match"):
            query_id_at(storage)
        with pytest.raises(StorageError, match="does not support exclusive creation"):
            sink.check_place()
        assert storage.list() == ["one"]


def answers(through: int) -> list[dict[str, object]]:
    """How often each word was said, without a flow."""
    said = Counter(row["word"] for epoch in range(through + 1) for row in words_of(epoch))
    return [{"word": word, "count": number} for word, number in said.items()]


def published(s3: S3, address: str) -> list[dict[str, object]]:
    table = ps.read_table(
        f"{address}/output", "counts", open_storage=lambda path: FsspecStorage(path, s3.options)
    )
    found: list[dict[str, object]] = table.to_pylist()
    return found


def ordered(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str(row["word"]))


def count_words(s3: S3, address: str, dies_before: int | None = None) -> tuple[int, int]:
    """Count to the end, or to the death before a request; the exit code, and how many requests there were."""
    s3.requests()
    process = driver("count", address, EPOCHS, environment=s3.environment)
    if dies_before is not None:
        s3.kill(process.pid, dies_before)
    process.communicate(timeout=SECONDS_MAX)
    return process.returncode, len(s3.requests())


@pytest.mark.long
def test_a_commit_takes_few_requests_and_a_killed_driver_loses_and_doubles_nothing(s3: S3) -> None:
    requests = check_deaths(s3, f"s3://{BUCKET}/killed", [DIES_BEFORE])
    assert requests <= TRIALS + BEGINNING_MAX + EPOCHS * REQUESTS_PER_COMMIT_MAX


@pytest.mark.long
@pytest.mark.parametrize("first", range(TRIALS + 2, TRIALS + 79, 7))
def test_a_driver_may_be_killed_before_any_request(first: int, s3: S3) -> None:
    check_deaths(s3, f"s3://{BUCKET}/killed-{first}", [first, first + 3])


def publish_numbers(s3: S3, address: str) -> list[tuple[int, int]]:
    """Many commits of two rows each; returns what readers must see."""
    sink = ps.io.ParquetSink(f"{address}/output", lambda path: FsspecStorage(path, s3.options))
    sink = sink.for_query("q", {"numbers": pa.schema([("x", pa.int64())])})
    writer, publisher = sink.writer(0, 0), sink.publisher()
    for epoch in range(COMMITS):
        rows = pa.record_batch({"x": pa.array([epoch, -epoch], pa.int64())})
        publisher.publish(epoch, epoch, writer.stage("numbers", {epoch: [rows]}))
    return sorted((epoch, x) for epoch in range(COMMITS) for x in (epoch, -epoch))


def numbers(s3: S3, address: str) -> list[tuple[int, int]]:
    table = ps.read_changes(
        f"{address}/output", "numbers", open_storage=lambda path: FsspecStorage(path, s3.options)
    )
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def moments_of(s3: S3, *arguments: object) -> int:
    """How many moments to die at a process that lives to its end has."""
    said, _ = driver(*arguments, 10**9, environment=s3.environment).communicate(timeout=SECONDS_MAX)
    return int(said.split()[-1])


@pytest.mark.long
def test_a_process_that_is_killed_while_it_merges_published_files_changes_nothing(s3: S3) -> None:
    address, alive = f"s3://{BUCKET}/merged", f"s3://{BUCKET}/merged-alive"
    publish_numbers(s3, alive)
    moments = moments_of(s3, "compact", alive, 0)
    expected = publish_numbers(s3, address)
    for moment in range(moments // DEATHS, moments, moments // DEATHS):
        dead = driver("compact", address, 0, moment, environment=s3.environment)
        dead.communicate(timeout=SECONDS_MAX)
        assert dead.returncode in (-signal.SIGKILL, 0)  # what those before it have done is not done again
        assert numbers(s3, address) == expected, moment
    assert moments_of(s3, "compact", address, 0) > 0
    assert numbers(s3, address) == expected
    files = [name for name in FsspecStorage(address, s3.options).list() if name.endswith(".parquet")]
    assert len(files) == 1, files


@pytest.mark.long
def test_a_process_that_is_killed_while_it_shortens_a_journal_loses_no_entry(s3: S3) -> None:
    address = f"s3://{BUCKET}/journal"
    moments = moments_of(s3, "shorten", f"{address}-alive", ENTRIES)
    durable = -1
    for moment in range(moments // DEATHS, moments, moments // DEATHS):
        dead = driver("shorten", address, ENTRIES, moment, environment=s3.environment)
        said, _ = dead.communicate(timeout=SECONDS_MAX)
        assert dead.returncode == -signal.SIGKILL
        durable = max([durable, *map(int, said.split())])
        journal: Journal[int] = Journal.open(FsspecStorage(address, s3.options), int)
        found = [each for each in journal.entries() if isinstance(each, int)]
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] % 3 == 0  # a summary, or the first of all
        assert found[-1] in (durable, durable + 1), moment  # one may be stored, and nobody was told
        durable = found[-1]


def check_deaths(s3: S3, address: str, deaths: list[int]) -> int:
    """Drivers that die before these requests, counted from each one's start; how many a living one needs."""
    first, *others = deaths
    assert count_words(s3, address, first)[0] == -signal.SIGKILL
    for before in others:
        # One that continues may be at its end before it has asked so often.
        assert count_words(s3, address, before)[0] in (-signal.SIGKILL, 0)
    code, requests = count_words(s3, address)
    assert code == 0
    assert ordered(published(s3, address)) == ordered(answers(EPOCHS - 1))
    return requests


def test_files_of_a_store_are_taken_by_the_time_that_it_tells_and_in_partitions_too(s3: S3) -> None:
    system = fsspec.filesystem("s3", **s3.options)
    folder = f"{BUCKET}/inbox"
    system.pipe(f"{folder}/b.csv", b"x\n1\n")
    while True:  # times of a store are whole seconds
        for name in ("day=1/a.csv", "10.csv", "9.csv"):
            system.pipe(f"{folder}/{name}", b"x\n1\n")
        told = [
            system.info(f"{folder}/{name}", refresh=True)["LastModified"] for name in ("b.csv", "day=1/a.csv")
        ]
        if told[0] < told[1]:
            break
    source = ps.io.files(f"s3://{folder}", storage_options=s3.options)
    names = [unit.name for unit in source.watch(None, available_now=True).poll()]
    assert names[0] == "b.csv"
    assert sorted(names) == ["10.csv", "9.csv", "b.csv", "day=1/a.csv"]
    named = ps.io.files(f"s3://{folder}", order_by="name", pattern="*.csv", storage_options=s3.options)
    assert [unit.name for unit in named.watch(None, available_now=True).poll()] == [
        "9.csv",
        "10.csv",
        "b.csv",
        "day=1/a.csv",
    ]
