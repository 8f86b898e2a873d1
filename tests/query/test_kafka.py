"""From topic to topic of a real Kafka, exactly once, no matter which process dies and when.

- *Promises*: units on which a promise rests are the same for the next driver, though it finds more records.
- *Counts*: what a source leaves out is told.
- *Pages*: the blocks of all pages that need a broker print what they show.
- *Deaths*: the driver dies before, in and after the transaction of a commit, and a worker; a reader of
  committed records finds each number once, in whole epochs and in order.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pointstamp as ps
from pointstamp.driver.messages import Tick
from pointstamp.query.recovery import begin_generation, found_again
from pointstamp.storage.memory import MemoryStorage
from support import pages
from support.kafka_broker import address, committed, new_topic, put
from support.kafka_drivers import ROWS_PER_TICK
from support.recovering import MemorySink, spec_of

pytestmark = pytest.mark.kafka

TESTS = Path(__file__).parents[1]
SECONDS_MAX = 600


def _run(folder: Path, source: str, target: str, moment: str) -> int:
    command = [sys.executable, "-m", "support.kafka_drivers", str(folder), source, target, moment]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "POINTSTAMP_TEST_KAFKA": address()}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.long
def test_a_driver_and_workers_that_die_at_any_moment_leave_every_epoch_once(tmp_path: Path) -> None:
    source, target = new_topic(2), new_topic(2)
    sent = 0
    moments = ("before the transaction", "not in the journal", "flushed", "committed", "worker", "never")
    for moment in moments:
        for partition in (0, 1):
            put(source, [b'{"n": %d}' % each for each in range(sent, sent + 15)], partition)
            sent += 15
        code = _run(tmp_path / "checkpoint", source, target, moment)
        assert code == (0 if moment in ("worker", "never") else -signal.SIGKILL)
    found = committed(target)
    rows = [json.loads(record.value) for record in found]
    assert sorted(row["n"] for row in rows) == list(range(sent))
    assert all(row["twice"] == 2 * row["n"] for row in rows)
    for partition in (0, 1):
        epochs = [
            row["epoch"] for row, record in zip(rows, found, strict=True) if record.partition == partition
        ]
        assert epochs == sorted(epochs)
    sizes = [sum(row["epoch"] == epoch for row in rows) for epoch in {row["epoch"] for row in rows}]
    assert max(sizes) <= ROWS_PER_TICK
    assert not list((tmp_path / "checkpoint").rglob("*.parquet")), "what is published is not kept"


def test_every_block_that_needs_a_broker_prints_what_it_shows(tmp_path: Path) -> None:
    chosen = pages.kafka_pages()
    assert len(chosen) >= 3
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "POINTSTAMP_TEST_KAFKA": address()}
    done = subprocess.run(
        [sys.executable, pages.__file__, *map(str, chosen)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_all_that_is_available_is_processed_however_young_it_is(tmp_path: Path) -> None:
    topic = new_topic(2)
    put(topic, [b'{"n": 0}'])
    flow = ps.Dataflow("young")
    flow.output("numbers", flow.stream_input("numbers", "n long"))
    query = flow.start(
        numbers=ps.io.kafka(address(), topic, look_every_seconds=600.0),
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
    )
    try:
        for number in range(1, 9):
            put(topic, [b'{"n": %d}' % number], partition=number % 2)
            query.process_all_available()
            rows = ps.read_changes(str(tmp_path / "out"))["numbers"]["n"].to_pylist()
            assert sorted(rows) == list(range(number + 1))
    finally:
        query.stop(finish=False)


def test_records_that_are_left_out_are_counted(tmp_path: Path) -> None:
    topic = new_topic(2)
    put(topic, [b'{"n": 1}', b"no JSON"])
    put(topic, [b"{", b"}", b'{"n": 2}'], partition=1)
    flow = ps.Dataflow("counted")
    flow.output("numbers", flow.stream_input("numbers", "n long"))
    query = flow.start(
        numbers=ps.io.kafka(address(), topic, on_bad="skip"),
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
        workers=2,
        available_now=True,
    )
    query.await_termination()
    progress = query.last_progress
    assert progress is not None
    assert (progress["rowsIn"], progress["rowsSkipped"]) == ({"numbers": 2}, {"numbers": 3})


def test_a_promise_rests_on_the_same_units_when_the_next_driver_finds_more() -> None:
    topic = new_topic()
    put(topic, [b'{"day": 1}', b'{"day": 2}'])
    flow = ps.Dataflow("days")
    flow.output("days", flow.stream_input("days", "day long"))
    source = ps.io.kafka(address(), topic)
    spec = spec_of(
        flow,
        [{}],
        MemoryStorage(),
        MemorySink(),
        workers=1,
        sources={"days": source},
        epoch_columns={"days": "day"},
    )
    first = begin_generation(spec, "first", 0.0).coordinator(spec, 0.0)
    first.offer("days", source.watch(None, available_now=True).poll())
    first.advance("days", 3)
    put(topic, [b'{"day": 1}'])  # which is late, and found after the promise
    second = begin_generation(spec, "second", 0.0)
    position, promised = found_again(source, second.ledger, "days")
    assert [unit.name for unit in promised] == [f"{topic}:0:0-2"]
    later = source.watch(position, available_now=True).poll()
    assert [unit.name for unit in later] == [f"{topic}:0:2-3"]
    coordinator = second.coordinator(spec, 0.0)
    coordinator.offer("days", promised)
    coordinator.offer("days", later)
    ticks = [order for _ in range(3) for _, order in coordinator.orders(0.0) if isinstance(order, Tick)]
    assert [(tick.open_from, tick.complete_to) for tick in ticks] == [(0, 3), (3, 3)]
    assert all(tick.parts["days"] for tick in ticks)
