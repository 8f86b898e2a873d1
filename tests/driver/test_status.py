"""The status of a run, and what is said when it is interrupted.

- *counts*: rows, epochs and frontiers against what was sent and received, on one worker and on several.
- *loops*: rounds while a loop turns, against what its operator has seen; only these find a round read from
  the wrong coordinate.
- *words*: what holds an output back, and what circulates when Ctrl-C hits, also in places where a worker is
  in no state to be asked.
- *from elsewhere*: the same status from counts alone, as they come from another process.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.driver.run_loop import count_rows
from pointstamp.driver.status import RowCounts, describe_interruption, status_from, status_of
from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.ports import Location
from support.times import Pairs

WORKERS = [1, 3]


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def one_less(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"x": pc.subtract(batch["x"], 1)})


def unchanged(time: object, batch: pa.RecordBatch) -> None:
    del time, batch


def countdown(watch: Callable[[tuple[int, ...], pa.RecordBatch], None] = unchanged) -> ps.Dataflow:
    """Numbers go round, one less each time, until they are 0."""
    flow = ps.Dataflow("countdown")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("down") as loop:
        again = loop.variable("x long")
        inside = loop.enter(numbers).union(again).named("both").exchange("x")
        less = inside.inspect(watch).named("watch").map_batches(one_less).named("less")
        positive = less.filter(pc.field("x") > 0).named("positive")
        loop.feedback(again, positive)
        out = loop.leave(positive)
    flow.output("steps", out)
    return flow


def pairs() -> ps.Dataflow:
    """Two inputs, two outputs; the second output needs both inputs."""
    flow = ps.Dataflow("pairs")
    left, right = flow.stream_input("left", "x long"), flow.stream_input("right", "x long")
    flow.output("only left", left.exchange("x").map_batches(one_less))
    flow.output("both", left.union(right))
    return flow


# Counts.


@pytest.mark.parametrize("workers", WORKERS)
def test_rows_epochs_and_frontiers_are_those_of_what_was_sent(workers: int) -> None:
    with pairs().open(workers) as run:
        counts = count_rows(run)
        for epoch in range(3):
            run.input("left").send(rows(1, 2, 3))
            run.input("left").advance_to(epoch + 1)
        run.input("right").send(rows(7))
        run.input("right").advance_to(1)
        run.settle()
        status = status_of(run, counts)
    assert (status.flow, status.rows_in, status.rows_out) == ("pairs", 10, 9 + 4)
    assert [(each.name, each.rows, each.frontier) for each in status.inputs] == [
        ("left", 9, ((3,),)),
        ("right", 1, ((1,),)),
    ]
    assert [(each.name, each.rows, each.epochs_complete, each.frontier) for each in status.outputs] == [
        ("only left", 9, 3, ((3,),)),
        ("both", 4, 1, ((1,),)),
    ]
    assert status.epochs_complete == 1
    assert not status.is_complete


@pytest.mark.parametrize("workers", WORKERS)
def test_a_run_that_is_over_is_complete_and_nothing_holds_it_back(workers: int) -> None:
    with pairs().open(workers) as run:
        counts = count_rows(run)
        run.input("left").send(rows(1))
        run.input("left").close()
        run.input("right").close()
        run.settle()
        status = status_of(run, counts)
    assert status.is_complete
    assert status.epochs_complete is None
    assert [each.frontier for each in status.inputs] == [(), ()]
    assert [(each.frontier, each.held_by, each.held_by_more) for each in status.outputs] == [((), (), 0)] * 2


def test_results_still_reach_who_waited_for_them_when_rows_are_counted() -> None:
    taken: list[tuple[str, int, int]] = []
    run = LocalRun(pairs().plan, on_result=lambda name, time, table: taken.append((name, time, len(table))))
    with run:
        count_rows(run)
        assert run.input("left").send(pa.Table.from_batches([rows(1, 2)])) == rows(1, 2).nbytes
        run.input("left").close()
        run.input("right").close()
        run.settle()
    assert sorted(taken) == [("both", 0, 2), ("only left", 0, 2)]


def test_without_counts_rows_are_zero_and_all_else_is_said() -> None:
    with pairs().open() as run:
        run.input("left").send(rows(1, 2))
        run.settle()
        assert status_of(run).rows_in == 0
        assert status_of(run).outputs[0].frontier == ((0,),)


def test_times_of_ones_own_are_shown_as_they_are_and_not_counted_as_epochs() -> None:
    flow = ps.Dataflow("own times", times=Pairs())
    flow.output("out", flow.stream_input("numbers", "x long"))
    with flow.open() as run:
        run.input("numbers").advance_to((2, 1))
        run.settle()
        (output,) = status_of(run).outputs
    assert output.epochs_complete is None
    assert output.frontier == (((2, 1),),)
    assert output.held_by == ("input 'numbers' may still send at (2, 1)",)


# Loops.


@pytest.mark.parametrize("workers", WORKERS)
def test_the_rounds_of_a_loop_are_those_that_its_operator_has_still_to_see_or_sees(workers: int) -> None:
    seen: list[int] = []
    flow = countdown(lambda time, batch: seen.append(time[1]))
    shown: set[int] = set()
    with flow.open(workers) as run:
        for worker in workers_of(run):
            worker.silent_activations_max = 1  # so that counts are at most one activation old
        run.input("numbers").send(rows(12))
        run.input("numbers").close()
        while run.step():
            for loop in status_of(run).loops:
                assert (loop.scope, loop.epoch) == (("down",), 0)
                assert 0 <= loop.first_round <= loop.last_round <= max(seen, default=0) + 1
                shown.update((loop.first_round, loop.last_round))
        assert status_of(run).loops == ()
    assert max(seen) == 11
    assert shown >= set(range(12))


def test_a_loop_is_told_for_each_epoch_and_an_outer_loop_has_its_own_round() -> None:
    flow = ps.Dataflow("nested")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("outer") as outer:
        again = outer.variable("x long")
        entered = outer.enter(numbers).union(again)
        with entered.loop("inner") as inner:
            further = inner.variable("x long")
            less = inner.enter(entered).union(further).map_batches(one_less).named("less")
            positive = less.filter(pc.field("x") > 0)
            inner.feedback(further, positive)
            left = inner.leave(positive)
        outer.feedback(again, left.filter(pc.field("x") == 1))
        out = outer.leave(left)
    flow.output("out", out)
    with flow.open() as run:
        workers_of(run)[0].silent_activations_max = 1
        for epoch in range(2):
            run.input("numbers").send(rows(6))
            run.input("numbers").advance_to(epoch + 1)
        found = set()
        while run.step():
            found |= {(loop.scope, loop.epoch, loop.last_round) for loop in status_of(run).loops}
    inner_rounds = {(epoch, number) for scope, epoch, number in found if scope == ("outer", "inner")}
    outer_rounds = {(epoch, number) for scope, epoch, number in found if scope == ("outer",)}
    assert inner_rounds >= {(epoch, number) for epoch in range(2) for number in range(5)}
    # The row that is 1 goes round once more, where it becomes 0 and ends.
    assert outer_rounds == {(epoch, number) for epoch in range(2) for number in range(2)}


# Words.


def test_what_holds_an_output_back_is_named_from_its_origin_on() -> None:
    with pairs().open() as run:
        run.input("left").advance_to(4)
        run.settle()
        only_left, both = status_of(run).outputs
    assert only_left.held_by == ("input 'left' may still send at epoch 4",)
    assert both.held_by == ("input 'right' may still send at epoch 0",)


def test_of_several_holders_the_farthest_upstream_comes_first() -> None:
    with pairs().open() as run:
        workers_of(run)[0].silent_activations_max = 0  # nothing is activated, only progress moves
        run.input("left").send(rows(1))
        workers_of(run)[0].step()
        only_left = status_of(run).outputs[0]
    assert only_left.held_by == (
        "input 'left' may still send at epoch 0",
        "1 message at epoch 0 for input 0 of 'map'",
    )


class Holding:
    """Keeps the right to send for ever."""

    outputs = "x long"

    def __init__(self) -> None:
        self.held: list[ps.timely.Capability] = []

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.held.append(context.retain())


def test_a_capability_in_a_loop_holds_its_round_and_is_no_message() -> None:
    flow = ps.Dataflow("held")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("keep") as loop:
        again = loop.variable("x long")
        kept = ps.operator("holding", Holding(), numbers=loop.enter(numbers).union(again))
        loop.feedback(again, kept)
        flow.output("out", loop.leave(kept))
    with flow.open() as run:
        run.input("numbers").send(rows(1))
        run.input("numbers").close()
        run.settle()
        status = status_of(run)
        (loop_status,) = status.loops
        assert (loop_status.first_round, loop_status.last_round, loop_status.messages) == (0, 0, 0)
        assert status.outputs[0].held_by == ("output 0 of 'holding' may still send at (0, 0)",)


def test_messages_that_wait_are_counted_and_the_rest_of_many_holders_is_a_number() -> None:
    flow = ps.Dataflow("wide")
    streams = [flow.stream_input(f"input {n}", "x long") for n in range(6)]
    flow.output("out", streams[0].union(*streams[1:]))
    with flow.open() as run:
        (output,) = status_of(run).outputs
        assert len(output.held_by) == 3
        assert output.held_by_more == 3
        workers_of(run)[0].silent_activations_max = 0  # nothing is activated, only progress moves
        run.input("input 0").send(rows(1))
        run.input("input 0").send(rows(2))
        for number in range(6):
            run.input(f"input {number}").close()
        workers_of(run)[0].step()
        (output,) = status_of(run).outputs
    assert output.held_by == ("2 messages at epoch 0 for input 0 of 'union'",)


class Interrupting:
    """Ctrl-C in the middle of a round."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, time: tuple[int, ...], batch: pa.RecordBatch) -> None:
        if time[1] == self.number:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("number", [0, 7, 200])
def test_an_interrupted_loop_says_its_round_and_what_circulates(workers: int, number: int) -> None:
    with countdown(Interrupting(number)).open(workers) as run:
        for epoch in range(3):
            run.input("numbers").advance_to(epoch)
        run.input("numbers").send(rows(1_000))
        run.input("numbers").advance_to(3)
        with pytest.raises(KeyboardInterrupt):
            run.settle()
        words = describe_interruption(run)
    assert words.startswith("flow 'countdown' was interrupted; ")
    assert f"loop 'down' is in round {number} of epoch 2; " in words


def test_what_waits_in_a_loop_is_told_first_and_with_its_rows() -> None:
    flow = countdown(Interrupting(3))
    flow.plan.has_chains = False  # so that rows wait in many places
    with flow.open() as run:
        run.input("numbers").send(rows(50))
        run.input("numbers").advance_to(1)
        for _ in range(5):
            run.step()
        run.input("numbers").send(rows(7, 8, 9))
        with pytest.raises(KeyboardInterrupt):
            run.settle()
        words = describe_interruption(run)
    assert words == (
        "flow 'countdown' was interrupted; loop 'down' is in round 3 of epoch 0; "
        "loop 'down' is in round 2 of epoch 1; "
        "1 message at (1, 2) with 3 rows for input 1 of 'both'; 1 message at (0, 3) for input 0 of 'watch'; "
        "1 message at epoch 1 with 3 rows for input 0 of 'steps'; "
        "input 'numbers' may still send at epoch 1"
    )


def test_a_run_can_be_described_in_the_middle_of_a_propagation() -> None:
    with countdown().open() as run:
        run.input("numbers").send(rows(5))
        workers_of(run)[0].view.tracker._readable = False
        words = describe_interruption(run)
    assert words == (
        "flow 'countdown' was interrupted; loop 'down' is in round 0 of epoch 0; "
        "1 message at (0, 0) with 1 row for input 0 of 'both'; input 'numbers' may still send at epoch 0"
    )


def test_only_the_first_places_are_named_and_an_input_at_several_times_by_its_first() -> None:
    flow = ps.Dataflow("wide")
    streams = [flow.stream_input(f"input {n}", "x long") for n in range(7)]
    flow.output("out", streams[0].union(*streams[1:]))
    with flow.open(2) as run:
        workers_of(run)[1].input("input 0").advance_to(3)
        words = describe_interruption(run)
    assert words.startswith(
        "flow 'wide' was interrupted; input 'input 0' may still send at epoch 0 and later; "
    )
    assert words.endswith("input 'input 4' may still send at epoch 0; and 2 more")


def test_a_run_that_had_nothing_to_do_says_so() -> None:
    with countdown().open() as run:
        run.input("numbers").close()
        run.settle()
        assert describe_interruption(run) == "flow 'countdown' was interrupted; nothing was in flight"


# From elsewhere.


def test_counts_alone_give_the_same_status() -> None:
    with countdown().open(2) as run:
        run.input("numbers").send(rows(9, 5))
        run.input("numbers").advance_to(1)
        for _ in range(40):
            run.step()
        here = workers_of(run)[0].view.tracker
        elsewhere = Tracker(here.graph)
        places = map(Location, range(len(here.graph.ports)))
        elsewhere.update_all(
            [
                Change(place, time, count)
                for place in places
                for time, count in here.occurrences(place).items()
            ]
        )
        elsewhere.propagate()
        assert status_from(run.plan, elsewhere, RowCounts()) == status_of(run)
