"""How many trips epochs and rounds take, and that messages by two ways keep their order, without processes.

The driving process and both workers are threads that take turns (``benchmarks.trip_counts``); everything else
is what runs in processes.

Families, and what only each can find:
- *counts*: that nothing is sent that need not be, and that small messages leave together;
- *told too early*: that the driving process is told of it if a worker was wrong about its output;
- *two ways*: that large messages through ZeroMQ and small ones as datagrams, however long either takes, give
  the same results; with a mutant in which the order between the ways is not kept.
"""

from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.rounds import empty_epochs, empty_rounds
from benchmarks.trip_counts import ThreadGang, counted_flow, counts_of, thousand_rows

import pointstamp as ps
from pointstamp.driver import processes
from pointstamp.driver.processes import ProcessRun
from pointstamp.errors import InternalError, PointstampError
from pointstamp.mesh import message_io
from pointstamp.mesh.message_io import Arrived, Incoming, InTurn
from pointstamp.verify.verifier import BoundedJudge
from pointstamp.worker import tails
from pointstamp.worker.tails import tail_of
from support.worlds import busy_flow, inputs_of, nested_flow, walking_flow

ROUNDS = 50
SEEDS = range(6)
EPOCHS = 6
SMALL_BYTES_MAX = 400


def test_an_empty_epoch_takes_a_packet_to_each_worker_and_one_back() -> None:
    counts = counts_of(empty_epochs(), None)
    assert counts["packets of driver"] == counts["messages"] - counts["packets of workers"] == 2
    assert 2 <= counts["packets of workers"] < 2.2  # now and then they tell each other, too


def test_a_round_takes_a_packet_from_each_worker_to_the_other() -> None:
    counts = counts_of(empty_rounds(ROUNDS), None, scale=ROUNDS, epochs=4)
    assert counts["packets of workers"] < 2.2  # the rest are those of its epoch


def test_rows_with_their_key_take_one_trip_between_the_workers() -> None:
    counts = counts_of(counted_flow(), thousand_rows())
    assert counts["packets of driver"] == 2  # rows and the end of their epoch, to each worker
    assert counts["packets of workers"] == 4  # progress to the other, results with the frontier to the driver


def test_rows_after_a_time_was_told_as_complete_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "tail_of", lambda *given: tail_of(*given)._replace(borders=()))
    monkeypatch.setattr(processes, "ProcessGang", ThreadGang)
    with (
        pytest.raises(
            InternalError, match=r"output 'out' received rows at \(\d,\) after its frontier had reached \[\]"
        ),
        ProcessRun(moved_flow().plan, 2) as run,
    ):
        feed(run, Random(0))


class Delayed(Incoming):
    """Ways in of which one seems to have nothing, now and then, as its seed says."""

    random = Random(0)

    def take(self) -> list[Arrived]:
        """What has come by the ways that are not delayed."""
        datagrams, pulls, with_news = self._datagrams, self._pulls, self._with_news
        delayed = self.random.choice(("datagrams", "ZeroMQ", ""))
        try:
            if delayed == "datagrams":
                self._datagrams = None
            elif delayed:
                self._pulls, self._with_news = {}, []
            return super().take()
        finally:
            self._datagrams, self._pulls = datagrams, pulls
            if delayed == "ZeroMQ":
                self._with_news = with_news


def delay(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Let workers be threads, and messages take two ways, each for as long as a seed says."""
    patch.setattr(processes, "ProcessGang", ThreadGang)
    patch.setattr(message_io, "PACKET_BYTES_MAX", SMALL_BYTES_MAX)
    patch.setattr("pointstamp.mesh.mesh.Incoming", Delayed)
    Delayed.random = Random(seed)


def two_ways(flow: ps.Dataflow, monkeypatch: pytest.MonkeyPatch, seed: int) -> dict[int, list[Any]]:
    """The results of each epoch, with large and small messages on their ways for as long as a seed says."""
    delay(monkeypatch, seed)
    found: dict[int, list[Any]] = {}

    def keep(_: str, epoch: int, table: pa.Table) -> None:
        found.setdefault(epoch, []).extend(map(str, table.to_pylist()))

    with closing(BoundedJudge(flow.plan, 2)) as judge:
        with ProcessRun(flow.plan, 2, on_result=keep, judge=judge) as run:
            feed(run, Random(seed))
        judge.end()
    return {epoch: sorted(rows) for epoch, rows in found.items()}


def feed(run: Any, random: Random) -> None:  # noqa: ANN401 - any run
    """Epochs of few rows and of many, some of which are sent before the last one is done."""
    source = run.input("in")
    for epoch in range(EPOCHS):
        for _ in range(random.randrange(1, 4)):
            rows = random.choice((1, 3, 400))
            source.send(pa.record_batch({"key": [random.randrange(50) for _ in range(rows)]}))
        source.advance_to(epoch + 1)
        if random.randrange(2):
            run.step_until(lambda e=epoch: run.is_done("out", e))
    source.close()
    run.settle()


def expected_of(flow: ps.Dataflow, seed: int) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}

    def keep(_: str, epoch: int, table: pa.Table) -> None:
        found.setdefault(epoch, []).extend(map(str, table.to_pylist()))

    with flow.open(on_result=keep) as run:
        feed(run, Random(seed))
    return {epoch: sorted(rows) for epoch, rows in found.items()}


def moved_flow() -> ps.Dataflow:
    """Rows that go from worker to worker twice, by keys that the driving process does not know."""
    flow = ps.Dataflow("moved")
    rows = flow.stream_input("in", "key long").map_batches(halved, "key long, half long")
    flow.output("out", rows.group_by("half", running=True).count().exchange("count"))
    return flow


def halved(batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = batch.column("key").to_pylist()
    return pa.record_batch({"key": keys, "half": [key // 2 for key in keys]})


FLOWS = {"counted": counted_flow, "moved": moved_flow}


@pytest.mark.parametrize("name", FLOWS)
def test_however_long_large_and_small_messages_take_results_are_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in SEEDS:
        expected = expected_of(FLOWS[name](), seed)
        with monkeypatch.context() as patch:
            assert two_ways(FLOWS[name](), patch, seed) == expected, seed


@pytest.mark.parametrize("flow", [busy_flow, nested_flow, walking_flow])
def test_loops_over_two_ways_are_judged_right_and_give_the_same(
    flow: Callable[[], ps.Dataflow], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = inputs_of(flow().plan)
    expected = rows_of(flow().run(**given))
    for seed in SEEDS[:2]:
        with monkeypatch.context() as patch:
            delay(patch, seed)
            assert rows_of(flow().run(processes=2, verify=True, **given)) == expected, seed


def rows_of(results: ps.Results) -> dict[str, list[Any]]:
    return {
        name: [(time, sorted(map(str, table.to_pylist()))) for time, table in output.items()]
        for name, output in results.items()
    }


def test_if_the_order_between_the_ways_is_not_kept_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = InTurn.take

    def at_once(self: InTurn, way: int, first: Any, bodies: Any) -> Any:  # noqa: ANN401 - as it takes them
        self._passed[1 - way] = [1 << 60] * len(self._passed[way])
        return take(self, way, first, bodies)

    monkeypatch.setattr(InTurn, "take", at_once)
    found = 0
    for seed in SEEDS:
        with monkeypatch.context() as patch:
            try:
                found += two_ways(counted_flow(), patch, seed) != expected_of(counted_flow(), seed)
            except (PointstampError, ValueError):  # the judge may be told of events in a wrong order
                found += 1
    assert found
