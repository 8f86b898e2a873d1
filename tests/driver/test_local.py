"""Flows that run in this process: the same answers on one worker and on several, and in the right epochs.

Families:
- operations: each stream operation against what plain Python says;
- completion: results come when their epoch is complete, not before, and an open input holds them back;
- styles: the same operator in Naiad's style and in timely's;
- loops: rounds, loops in loops, times of one's own;
- flow control: a source that is much faster than the sink.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError
from support.times import Pairs

WORKERS = [1, 2, 3, 5]


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def numbers() -> tuple[ps.Dataflow, ps.Stream]:
    flow = ps.Dataflow("test")
    return flow, flow.stream_input("numbers", "x long")


def by_epoch(results: ps.Results, output: str = "out") -> dict[int, list[int]]:
    return {epoch: sorted(table["x"].to_pylist()) for epoch, table in results[output].items()}


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"x": pc.multiply(batch["x"], 2)})


# Operations.


@pytest.mark.parametrize("workers", WORKERS)
def test_map_filter_branch_and_concat_do_what_they_say(workers: int) -> None:
    flow, stream = numbers()
    small, large = stream.exchange("x").split(pc.field("x") < 5)
    odd = large.filter(lambda batch: pc.equal(pc.bit_wise_and(batch["x"], 1), 1))
    flow.output("out", small.map_batches(double).union(odd))
    results = flow.run(numbers=[rows(*range(10)), rows(), rows(3, 7, 8)], workers=workers)
    assert by_epoch(results) == {0: [0, 2, 4, 5, 6, 7, 8, 9], 1: [], 2: [6, 7]}


def test_rows_whose_condition_is_null_are_in_the_second_branch_and_not_filtered_in() -> None:
    flow, stream = numbers()
    positive, others = stream.split(pc.field("x") > 0)
    flow.output("positive", positive)
    flow.output("others", others)
    flow.output("kept", stream.filter(lambda batch: pc.greater(batch["x"], 0)))
    batch = pa.record_batch({"x": pa.array([1, None, -1], pa.int64())})
    results = flow.run(numbers=[batch])
    assert results["positive"][0]["x"].to_pylist() == [1]
    assert results["others"][0]["x"].to_pylist() == [None, -1]
    assert results["kept"][0]["x"].to_pylist() == [1]


@pytest.mark.parametrize("workers", WORKERS)
def test_broadcast_gives_every_worker_every_row(workers: int) -> None:
    flow, stream = numbers()
    flow.output("out", stream.broadcast().map_batches(lambda batch: batch))
    assert by_epoch(flow.run(numbers=[rows(1, 2)], workers=workers)) == {0: sorted([1, 2] * workers)}


@pytest.mark.parametrize("workers", WORKERS)
def test_a_broadcast_that_is_exchanged_again_keeps_its_copies(workers: int) -> None:
    flow, stream = numbers()
    flow.output("out", stream.broadcast().exchange("x").map_batches(lambda batch: batch))
    assert by_epoch(flow.run(numbers=[rows(1, 2)], workers=workers)) == {0: sorted([1, 2] * workers)}


def test_per_row_functions_see_dictionaries() -> None:
    flow, stream = numbers()
    words = stream.flat_map(lambda row: ({"w": "a" * n} for n in range(row["x"])), "w string")
    flow.output("out", words.map(lambda row: {"x": len(row["w"])}, "x long"))
    assert by_epoch(flow.run(numbers=[rows(2, 0, 3)])) == {0: [0, 0, 1, 1, 2]}


def test_inspect_sees_every_batch_with_its_time_and_changes_nothing() -> None:
    seen: list[tuple[tuple[int, ...], int]] = []
    flow, stream = numbers()
    flow.output("out", stream.inspect(lambda time, batch: seen.append((time, batch.num_rows))))
    assert by_epoch(flow.run(numbers=[rows(1), rows(2, 3)])) == {0: [1], 1: [2, 3]}
    assert seen == [((0,), 1), ((1,), 2)]


@pytest.mark.parametrize("workers", WORKERS)
def test_delay_moves_batches_to_later_epochs(workers: int) -> None:
    flow, stream = numbers()
    flow.output("out", stream.delay(2))
    results = flow.run(numbers=[rows(1), rows(2)], workers=workers)
    assert by_epoch(results) == {0: [], 1: [], 2: [1], 3: [2]}


@given(st.lists(st.lists(st.integers(-5, 5), max_size=12), max_size=5), st.sampled_from(WORKERS))
def test_counts_per_epoch_and_running_equal_those_of_a_counter(epochs: list[list[int]], workers: int) -> None:
    flow, stream = numbers()
    flow.output("each", stream.count("x"))
    flow.output("running", stream.group_by("x", running=True).count())
    results = flow.run(numbers=[rows(*values) for values in epochs], workers=workers)
    total: Counter[int] = Counter()
    for epoch, values in enumerate(epochs):
        total.update(values)
        each = results["each"][epoch]
        running = results["running"][epoch]
        assert dict(zip(each["x"].to_pylist(), each["count"].to_pylist(), strict=True)) == Counter(values)
        changed = dict(zip(running["x"].to_pylist(), running["count"].to_pylist(), strict=True))
        assert changed == {value: total[value] for value in values}


# Completion.


@pytest.mark.parametrize("workers", WORKERS)
def test_a_result_comes_when_its_epoch_is_complete_and_not_before(workers: int) -> None:
    flow, stream = numbers()
    flow.output("out", stream.exchange("x").map_batches(double))
    got: list[tuple[int, int]] = []
    with flow.open(workers, on_result=lambda name, epoch, table: got.append((epoch, table.num_rows))) as run:
        source = run.input("numbers")
        source.send(rows(1, 2, 3))
        source.send(rows(4))
        run.settle()
        assert got == []
        assert not run.is_done("out", 0)
        assert all(str(holder).startswith("time (0,) is outstanding") for holder in run.why("out"))
        source.advance_to(2)
        run.settle()
        assert got == [(0, 4)]
        assert run.is_done("out", 1)
        assert run.frontier("out") == [(2,)]
        source.send(rows(5))
        source.close()
        run.settle()
        assert got == [(0, 4), (2, 1)]
        assert run.frontier("out") == []
        assert run.is_complete


def test_a_silent_input_holds_back_only_what_depends_on_it() -> None:
    flow = ps.Dataflow("test")
    fast, silent = flow.stream_input("fast", "x long"), flow.stream_input("silent", "x long")
    flow.output("alone", fast)
    flow.output("both", fast.union(silent))
    with flow.open() as run:
        run.input("fast").send(rows(1))
        run.input("fast").advance_to(1)
        run.settle()
        assert run.is_done("alone", 0)
        assert not run.is_done("both", 0)
        [holder] = run.why("both")
        assert "output 0 of 'silent'" in str(holder)
        run.input("silent").close()
        run.settle()
        assert run.is_done("both", 0)


def test_a_probe_tells_how_far_a_stream_has_come() -> None:
    flow, stream = numbers()
    probe = stream.map_batches(double).probe()
    with flow.open(2) as run:
        source = run.input("numbers")
        for epoch in range(3):
            source.send(rows(epoch))
            source.advance_to(epoch + 1)
            run.step_until(lambda e=epoch: run.is_done(probe, e))  # type: ignore[misc]
            assert run.frontier(probe) == [(epoch + 1,)]
        with pytest.raises(FlowError, match="is idle"):
            run.step_until(lambda: run.is_done(probe, 3))


def test_epochs_stream_out_as_soon_as_they_are_complete_and_before_the_next_is_read() -> None:
    flow, stream = numbers()
    flow.output("out", stream)
    read: list[int] = []

    def endless() -> Iterator[pa.RecordBatch]:
        for number in range(10**9):
            read.append(number)
            yield rows(number)

    epochs: list[int] = []
    for epoch, tables in flow.stream(numbers=endless()):
        assert tables["out"]["x"].to_pylist() == [epoch]
        assert read == list(range(epoch + 1))
        epochs.append(epoch)
        if epoch == 20:
            break
    assert epochs == list(range(21))


def test_an_epoch_column_sorts_rows_into_epochs() -> None:
    flow, stream = numbers()
    flow.output("out", stream)
    table = pa.table({"at": [2, 0, 2, 5], "x": [1, 2, 3, 4]})
    results = flow.run(numbers=table, epoch="at")
    assert by_epoch(results) == {0: [2], 2: [1, 3], 5: [4]}
    assert results["out"].table().to_pydict() == {"epoch": [0, 2, 2, 5], "x": [2, 1, 3, 4]}


def test_inputs_of_different_lengths_and_none_at_all_end_well() -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("a", "x long").union(flow.stream_input("b", "x long")))
    assert by_epoch(flow.run(a=[rows(1)], b=[rows(2), rows(3), rows(4)])) == {0: [1, 2], 1: [3], 2: [4]}
    assert by_epoch(flow.run(a=[], b=[])) == {}


# Styles.


class NaiadSum:
    """Sums each epoch: receive, notify at, send by."""

    outputs = "x long"

    def __init__(self) -> None:
        self.sums: dict[tuple[int, ...], int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.notify_at()
        self.sums[context.time] = self.sums.get(context.time, 0) + pc.sum(batch["x"]).as_py()

    def on_notify(self, context: ps.ports.Context) -> None:
        context.send(rows(self.sums.pop(context.time)))


class TimelySum:
    """Sums each epoch: hold a capability per time, and send when the frontier has passed it."""

    outputs = "x long"

    def __init__(self) -> None:
        self.sums: dict[tuple[int, ...], tuple[ps.timely.Capability, int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        added = pc.sum(batch["x"]).as_py()
        if context.time in self.sums:
            capability, total = self.sums[context.time]
            self.sums[context.time] = (capability, total + added)
        else:
            self.sums[context.time] = (context.retain(), added)

    def on_frontier(self, context: ps.ports.Context) -> None:
        frontier = context.frontier("numbers")
        for time in [time for time in self.sums if not frontier.less_equal(time)]:
            capability, total = self.sums.pop(time)
            with capability:
                context.send(rows(total), capability=capability)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("style", [NaiadSum, TimelySum])
def test_both_styles_sum_each_epoch(style: type, workers: int) -> None:
    flow, stream = numbers()
    one_place = stream.map_batches(
        lambda b: b.append_column("k", pa.array([0] * b.num_rows)), "x long, k long"
    )
    flow.output("out", ps.operator("sum", style(), numbers=one_place.exchange("k")))
    results = flow.run(numbers=[rows(1, 2, 3), rows(), rows(10)], workers=workers)
    assert by_epoch(results) == {0: [6], 1: [], 2: [10]}


def test_notifications_respect_the_order_of_times_and_may_ask_on() -> None:
    told: list[tuple[int, ...]] = []

    class Ahead:
        outputs = "x long"

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            for ahead in (5, 3, 1, 0, 3):
                context.notify_at((context.epoch + ahead,))

        def on_notify(self, context: ps.ports.Context) -> None:
            told.append(context.time)
            context.send(rows(context.epoch))
            if context.epoch == 5:
                context.notify_at((7,))

    flow, stream = numbers()
    flow.output("out", ps.operator("ahead", Ahead(), numbers=stream))
    results = flow.run(numbers=[rows(1)])
    assert told == [(0,), (1,), (3,), (5,), (7,)]
    assert by_epoch(results) == {0: [0], 1: [1], 3: [3], 5: [5], 7: [7]}


def test_an_operator_may_start_by_itself_and_keep_its_first_capability() -> None:
    class Countdown:
        outputs = "x long"

        def on_start(self, context: ps.ports.Context) -> None:
            self.capability = context.retain()

        def on_frontier(self, context: ps.ports.Context) -> None:
            if self.capability.is_held and context.is_complete((1,)):
                context.send(rows(99), at=(4,), capability=self.capability)
                self.capability.drop()

    flow, stream = numbers()
    flow.output("out", ps.operator("countdown", Countdown(), numbers=stream))
    assert by_epoch(flow.run(numbers=[rows(1), rows(2), rows(3)])) == {0: [], 1: [], 2: [], 4: [99]}


def test_capabilities_are_cloned_delayed_and_used_in_sessions() -> None:
    """Each epoch is answered now, two epochs later, and by a clone at the very end."""

    class Thrice:
        outputs = "x long"

        def __init__(self) -> None:
            self.clones: list[ps.timely.Capability] = []

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            now = context.retain()
            self.clones.append(now.clone())
            later = now.delayed((context.epoch + 2,))
            with context.session(now) as session:
                session.send(batch)
                session.send(rows(-1))
            assert not now.is_held
            with context.session(later, at=(context.epoch + 3,)) as session:
                session.send(double(batch))
                session.keep()
            assert later.is_held
            later.drop()

        def on_frontier(self, context: ps.ports.Context) -> None:
            if not context.frontier().elements:
                for clone in self.clones:
                    with context.session(clone) as session:
                        session.send(rows(100))
                self.clones.clear()

    flow, stream = numbers()
    flow.output("out", ps.operator("thrice", Thrice(), numbers=stream))
    assert by_epoch(flow.run(numbers=[rows(1), rows(2)])) == {
        0: [-1, 1, 100],
        1: [-1, 2, 100],
        3: [2],
        4: [4],
    }


def test_an_operator_with_two_outputs_and_no_way_between_some_ports() -> None:
    """The diagnostics port: a query that waits does not hold back the data."""

    class Work:
        outputs = {"data": "x long", "answers": "x long"}  # noqa: RUF012 - read once
        summaries = {("queries", "data"): ()}  # noqa: RUF012 - read once

        def __init__(self) -> None:
            self.seen = 0

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            if input == "data":
                self.seen += batch.num_rows
                context.send(batch, output="data")
            else:
                context.send(rows(self.seen), output="answers")

    flow = ps.Dataflow("test")
    data, queries = flow.stream_input("data", "x long"), flow.stream_input("queries", "x long")
    passed, answers = ps.operator("work", Work(), data=data, queries=queries)
    flow.output("data", passed)
    flow.output("answers", answers)
    with flow.open() as run:
        run.input("data").send(rows(1, 2))
        run.input("data").advance_to(1)
        run.input("queries").send(rows(0))
        run.settle()
        assert run.is_done("data", 0)
        assert not run.is_done("answers", 0)
        assert ["output 0 of 'queries'" in str(holder) for holder in run.why("answers")] == [True]


# Loops.


def collatz(flow: ps.Dataflow, stream: ps.Stream) -> ps.Stream:
    """Halve or triple-and-one until 1; what leaves is the round in which a number got there."""

    def on(batch: pa.RecordBatch) -> pa.RecordBatch:
        x = batch["x"]
        odd = pc.equal(pc.bit_wise_and(x, 1), 1)
        return batch.set_column(0, "x", pc.if_else(odd, pc.add(pc.multiply(x, 3), 1), pc.shift_right(x, 1)))

    with stream.loop("collatz") as loop:
        again = loop.variable("x long")
        numbers_inside = loop.enter(stream).union(again).exchange("x")
        done, going = numbers_inside.split(pc.field("x") == 1)
        loop.feedback(again, going.map_batches(on))
        return loop.leave(ps.operator("rounds", Rounds(), done=done))


class Rounds:
    outputs = "x long"

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(rows(*[context.time[1]] * batch.num_rows))


def collatz_steps(number: int) -> int:
    steps = 0
    while number != 1:
        number = 3 * number + 1 if number % 2 else number // 2
        steps += 1
    return steps


@pytest.mark.parametrize("workers", WORKERS)
def test_a_loop_counts_its_rounds_and_ends_by_itself(workers: int) -> None:
    flow, stream = numbers()
    flow.output("out", collatz(flow, stream))
    epochs = [[27, 1, 6], [], [7, 97]]
    results = flow.run(numbers=[rows(*values) for values in epochs], workers=workers)
    assert by_epoch(results) == {e: sorted(map(collatz_steps, values)) for e, values in enumerate(epochs)}


@pytest.mark.parametrize("workers", WORKERS)
def test_a_loop_in_a_loop_keeps_both_rounds_apart(workers: int) -> None:
    """Outer: take one off; inner: count down to zero and report (outer round, inner rounds)."""
    seen: set[tuple[int, ...]] = set()
    flow, stream = numbers()
    with stream.loop("outer") as outer:
        left_over = outer.variable("x long", "left over")
        start = outer.enter(stream).union(left_over)
        with start.loop("inner") as inner:
            counting = inner.variable("x long", "counting")
            now = inner.enter(start).union(counting).inspect(lambda time, batch: seen.add(time))
            less = now.map_batches(lambda b: pa.record_batch({"x": pc.subtract(b["x"], 1)}))
            inner.feedback(counting, less.filter(pc.field("x") > 0))
            ended = inner.leave(less.filter(pc.field("x") == 0))
        next_start = start.map_batches(lambda b: pa.record_batch({"x": pc.subtract(b["x"], 1)}))
        outer.feedback(left_over, next_start.filter(pc.field("x") > 0))
        flow.output("out", outer.leave(ended))
    results = flow.run(numbers=[rows(3), rows(1)], workers=workers)
    assert by_epoch(results) == {0: [0, 0, 0], 1: [0]}
    assert seen == {(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 0, 0)}


@pytest.mark.parametrize("workers", WORKERS)
def test_times_of_ones_own_let_one_source_run_ahead(workers: int) -> None:
    flow = ps.Dataflow("test", times=Pairs())
    left, right = flow.stream_input("left", "x long"), flow.stream_input("right", "x long")
    flow.output("left", left.count("x"))
    flow.output("both", left.union(right))
    with flow.open(workers) as run:
        run.input("left").send(rows(1))
        run.input("left").advance_to((7, 0))
        run.settle()
        assert run.is_done("left", (6, 10**6))
        assert not run.is_done("both", (0, 0))
        run.input("right").advance_to((0, 3))
        run.settle()
        assert run.is_done("both", (6, 2))
        assert not run.is_done("both", (7, 0))
        assert not run.is_done("both", (0, 3))
        with pytest.raises(FlowError, match=r"is at \(7, 0\) and cannot be advanced to \(6, 5\)"):
            run.input("left").advance_to((6, 5))
    items = [((0, 0), rows(1)), ((2, 1), rows(2))]
    results = flow.run(left=items, right=[((0, 5), rows(3))], workers=workers)
    assert {time: table.num_rows for time, table in results["both"].items()} == {
        (0, 0): 1,
        (0, 5): 1,
        (2, 1): 1,
    }
    with pytest.raises(FlowError, match=r"items must be \(time, rows\) pairs"):
        flow.run(left=[rows(1)], right=[])


# Flow control.


def test_a_source_much_faster_than_the_sink_is_slowed_down() -> None:
    """What is on its way stays bounded although the source never waits by itself."""
    in_flight: list[int] = []
    sent = finished = 0
    flow, stream = numbers()
    slow = stream.delay(3)  # a result needs three more epochs, so the flow holds some back
    flow.output("out", slow)

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal sent
        for number in range(500):
            sent += 1
            in_flight.append(sent - finished)
            yield rows(*range(number % 7))

    for _ in flow.stream(numbers=source(), control=ps.timely.FlowControl(epochs_max=5)):
        finished += 1
    assert sent == 500
    assert max(in_flight) <= 5


def test_bytes_in_flight_are_bounded_too() -> None:
    class Hoard:
        """Lets go of an epoch only when two more have come."""

        outputs = "x long"

        def __init__(self) -> None:
            self.kept: list[ps.timely.Capability] = []

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            self.kept.append(context.retain())
            if len(self.kept) > 2:
                self.kept.pop(0).drop()

        def on_frontier(self, context: ps.ports.Context) -> None:
            if not context.frontier().elements:
                while self.kept:
                    self.kept.pop().drop()

    flow, stream = numbers()
    flow.output("out", ps.operator("hoard", Hoard(), numbers=stream))
    batch = rows(*range(1_000))
    control = ps.timely.FlowControl(epochs_max=100, bytes_max=3 * batch.nbytes)
    results = flow.run(numbers=[batch] * 50, control=control)
    assert len(results["out"]) == 50
    tight = ps.timely.FlowControl(epochs_max=100, bytes_max=batch.nbytes)
    with pytest.raises(FlowError, match="is not complete: time"):
        flow.run(numbers=[batch] * 50, control=tight)


def test_the_same_run_twice_does_the_same_things_in_the_same_order() -> None:
    def trace(seed: int) -> list[tuple[tuple[int, ...], list[int]]]:
        seen: list[tuple[tuple[int, ...], list[int]]] = []
        flow, stream = numbers()
        watched = stream.exchange("x").inspect(
            lambda time, batch: seen.append((time, batch["x"].to_pylist()))
        )
        flow.output("out", collatz(flow, watched))
        rng = random.Random(seed)
        flow.run(numbers=[rows(*(rng.randrange(1, 99) for _ in range(20))) for _ in range(3)], workers=3)
        return seen

    assert trace(1) == trace(1)


# Processes.


def test_processes_give_what_workers_give_and_stream_their_epochs() -> None:
    flow, stream = numbers()
    flow.output("out", collatz(flow, stream))
    epochs = [rows(27, 6), rows(), rows(97, 7, 3)]
    alone = by_epoch(flow.run(numbers=epochs))
    assert by_epoch(flow.run(numbers=epochs, processes=2)) == alone
    streamed = {e: sorted(t["out"]["x"].to_pylist()) for e, t in flow.stream(numbers=epochs, processes=2)}
    assert streamed == alone


def test_workers_and_processes_are_not_given_together() -> None:
    flow, stream = numbers()
    flow.output("out", stream)
    with pytest.raises(FlowError, match="workers=2 and processes=2, but each process runs one worker"):
        flow.run(numbers=[], workers=2, processes=2)


def test_progress_is_shown_for_workers_and_for_processes(capsys: pytest.CaptureFixture[str]) -> None:
    flow, stream = numbers()
    flow.output("out", stream.exchange("x"))
    for place in ({"workers": 2}, {"processes": 2}):
        flow.run({"numbers": [rows(1, 2, 3)] * 3}, progress=True, **place)  # type: ignore[call-overload]
        shown = capsys.readouterr()
        assert "9 rows in" in shown.out + shown.err


def test_what_a_delay_brings_into_a_later_epoch_is_there_once_with_what_that_epoch_itself_has() -> None:
    flow = ps.Dataflow("delayed")
    numbers = flow.stream_input("numbers", "x long")
    flow.output("both", numbers.union(numbers.delay(1)))
    flow.output("late", numbers.delay(1))
    results = flow.run(numbers=[pa.table({"x": [epoch]}) for epoch in range(3)])
    late = {epoch: table["x"].to_pylist() for epoch, table in results["late"].items()}
    both = {epoch: sorted(table["x"].to_pylist()) for epoch, table in results["both"].items()}
    assert late == {0: [], 1: [0], 2: [1], 3: [2]}
    assert both == {0: [0], 1: [0, 1], 2: [1, 2], 3: [2]}


@pytest.mark.parametrize("processes", [None, 2])
def test_an_epoch_that_is_done_before_all_inputs_are_fed_is_told_once_with_its_rows(
    processes: int | None,
) -> None:
    # No output depends on ``more``, so epoch 0 is done before its rows of ``more`` are sent; it was told
    # again then, without rows, and these took the place of the others.
    flow = ps.Dataflow("two inputs")
    flow.output("counts", flow.stream_input("rows", "k long").count("k"))
    flow.stream_input("more", "k long")
    rows = [pa.table({"k": [epoch, 7]}) for epoch in range(3)]
    more = [pa.table({"k": pa.array([], pa.int64())})] * 3
    told = list(flow.stream(rows=rows, more=more, processes=processes))
    assert [epoch for epoch, _ in told] == [0, 1, 2]
    assert [tables["counts"].num_rows for _, tables in told] == [2, 2, 2]
    assert flow.run(rows=rows, more=more)["counts"].table().num_rows == 6
