"""Checkpoints and output on S3: conditional writes are what they rest on, so they are shown on a real server.

Families, and what only each can find:
- races: two processes create the same objects through the library that queries use, and one wins each;
- trials: a store that lets two writers of the same instant pass is refused when a query starts, although it
  refuses a second writer that comes later;
- kills: a driver is killed instead of being answered, and the next one goes on: no row is lost or doubled;
- counts: the requests that one commit takes, and how many of them go side by side.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

import pointstamp as ps
from pointstamp.errors import AlreadyStored, StorageError
from pointstamp.query.starting import query_id_at
from pointstamp.storage.anywhere import FsspecStorage
from pointstamp.storage.proving import check_exclusive
from support.s3 import BUCKET, S3, TESTS
from support.s3_drivers import words_of

ROUNDS = 25
EPOCHS = 5
SECONDS_MAX = 300
REQUESTS_PER_COMMIT_MAX = 20
TRIALS = 80  # of checkpoint and output
BEGINNING_MAX = 60
DIES_BEFORE = TRIALS + 50  # in the second commit or the third


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


def driver(s3: S3, *arguments: object) -> "subprocess.Popen[str]":
    """A process of ``support.s3_drivers``."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.s3_drivers", *map(str, arguments)],
        env={**os.environ, **s3.environment, "PYTHONPATH": TESTS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_of_two_processes_that_create_the_same_object_exactly_one_wins(s3: S3) -> None:
    racers = [driver(s3, "race", f"s3://{BUCKET}/race", ROUNDS) for _ in range(2)]
    assert [line(each) for each in racers] == ["ready", "ready"]
    for number in range(ROUNDS):
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        assert sorted(line(each) for each in racers) == ["lost", "won"], number
    for each in racers:
        each.communicate(timeout=SECONDS_MAX)
        assert each.returncode == 0


def test_a_store_that_keeps_its_promise_passes_the_trial_and_nothing_is_left(s3: S3) -> None:
    storage = FsspecStorage(f"s3://{BUCKET}/trial", s3.options)
    assert storage.needs_trial
    check_exclusive(storage)
    assert storage.list() == []


def test_a_store_that_lies_under_a_race_is_refused_when_a_query_starts(s3: S3) -> None:
    storage = FsspecStorage(f"s3://{BUCKET}/lies", s3.options)
    sink = ps.ParquetSink(f"s3://{BUCKET}/out", lambda path: FsspecStorage(path, s3.options))
    with s3.lying():
        storage.create("one", b"1")
        with pytest.raises(AlreadyStored):
            storage.create("one", b"2")  # to who asks in turn, it says the truth
        with pytest.raises(StorageError, match=r"4 writers .* and [234] of them .*If-None-Match"):
            query_id_at(storage)
        with pytest.raises(StorageError, match="Two drivers would not be told apart"):
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
    process = driver(s3, "count", address, EPOCHS)
    if dies_before is not None:
        s3.kill(process.pid, dies_before)
    process.communicate(timeout=SECONDS_MAX)
    return process.returncode, len(s3.requests())


@pytest.mark.long
def test_a_commit_takes_few_requests_and_a_killed_driver_loses_and_doubles_nothing(s3: S3) -> None:
    requests = check_deaths(s3, f"s3://{BUCKET}/killed", [DIES_BEFORE])
    assert requests <= TRIALS + BEGINNING_MAX + EPOCHS * REQUESTS_PER_COMMIT_MAX


@pytest.mark.long
@pytest.mark.parametrize("first", range(TRIALS + 2, TRIALS + 86, 7))
def test_a_driver_may_be_killed_before_any_request(first: int, s3: S3) -> None:
    check_deaths(s3, f"s3://{BUCKET}/killed-{first}", [first, first + 3])


def check_deaths(s3: S3, address: str, deaths: list[int]) -> int:
    """Drivers that die before these requests, counted from each one's start; how many a living one needs."""
    first, *others = deaths
    assert count_words(s3, address, first)[0] == -signal.SIGKILL
    for before in others:
        # One that goes on may be at its end before it has asked so often.
        assert count_words(s3, address, before)[0] in (-signal.SIGKILL, 0)
    code, requests = count_words(s3, address)
    assert code == 0
    assert ordered(published(s3, address)) == ordered(answers(EPOCHS - 1))
    return requests
