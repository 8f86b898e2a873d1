"""Snapshots of workers at closed epochs: nothing of an epoch is lost, seen early, or seen twice.

- *Interruptions*: flows of every kind are dropped after random steps of random schedules and resume from what
  was saved, on the same and on other numbers of workers; only these find what is missing in a snapshot.
- *Hold-back*: single steps of one worker; only these see that a message waits, that its time stays open while
  it does, and that no operator is shown more than it may see.
- *Refusals*: what an operator must do for its own state, and the words if it does not.
"""

import random
import warnings
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, PointstampWarning
from pointstamp.journal.snapshot_parts import restored_from
from pointstamp.state import saved
from pointstamp.worker.worker import Worker
from support.recoverables import FLOWS, Reminders, Windows, expected, numbers, rows_of
from support.recovering import Chain, Rig, interrupted

# Interruptions.


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_is_dropped_and_restored_shows_what_an_uninterrupted_one_shows(
    name: str, workers: int
) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 7, seed=workers)
    for seed in range(6):
        shown = interrupted(flow.plan, data, seed, crews=[workers] * 4, interval=(1, 2, 5)[seed % 3])
        assert shown == expected(flow, data), f"seed {seed}"


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_goes_on_with_another_number_of_workers(name: str) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 8, seed=3)
    for seed in range(6):
        shown = interrupted(flow.plan, data, seed, crews=[1, 3, 2], interval=(1, 2)[seed % 2], steps_max=200)
        assert shown == expected(flow, data), f"seed {seed}"


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(FLOWS)),
    seed=st.integers(0, 2**32),
    epochs=st.integers(1, 10),
    crews=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    interval=st.sampled_from((1, 2, 5)),
    whole_every=st.integers(1, 4),
)
def test_no_schedule_of_losses_changes_what_is_shown(
    name: str, seed: int, epochs: int, crews: list[int], interval: int, whole_every: int
) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, epochs, seed)
    shown = interrupted(flow.plan, data, seed, crews=crews, interval=interval, whole_every=whole_every)
    assert shown == expected(flow, data)


@pytest.mark.parametrize("name", ["carried", "windows", "reminders", "components"])
def test_every_epoch_is_a_place_to_go_on_from(name: str) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 6, seed=11)
    wanted = expected(flow, data)
    for stop in range(6):
        first = Rig(flow.plan, 2, [], random.Random(stop))
        for epoch in range(stop + 1):
            first.feed(epoch, data[epoch])
            first.save(is_whole=epoch == 0)
        first.settle()
        assert first.epoch == stop
        second = Rig(flow.plan, 2, first.chain, random.Random(stop))
        for epoch in range(stop + 1, 6):
            second.feed(epoch, data[epoch])
            second.save(is_whole=False)
        second.settle()
        assert first.published() | second.published() == wanted
        first.drop()
        second.drop()


# Hold-back.


class Seen:
    """Takes down what it is given and which frontier it is shown."""

    outputs = "k long, v long"

    def __init__(self, epochs: list[int], frontiers: list[list[tuple[int, ...]]]) -> None:
        self._epochs = epochs
        self._frontiers = frontiers

    def __deepcopy__(self, memo: object) -> "Seen":
        return Seen(self._epochs, self._frontiers)

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._epochs.append(context.epoch)
        self._frontiers.append(list(context.frontier()))
        context.send(batch)

    def on_frontier(self, context: ps.ports.Context) -> None:
        self._frontiers.append(list(context.frontier()))


def _watched(epochs: list[int], frontiers: list[list[tuple[int, ...]]]) -> ps.Dataflow:
    flow = ps.Dataflow("watched")
    flow.output(
        "out", ps.operator("seen", Seen(epochs, frontiers), x=flow.stream_input("numbers", "k long, v long"))
    )
    return flow


@pytest.mark.filterwarnings("ignore:operator 'seen' keeps")
def test_a_message_of_a_later_epoch_waits_for_the_snapshot_and_keeps_its_time_open() -> None:
    epochs: list[int] = []
    frontiers: list[list[tuple[int, ...]]] = []
    rig = Rig(_watched(epochs, frontiers).plan, 1, [], random.Random(0))
    (worker,) = rig.workers
    worker.open_to(0)
    worker.inputs["numbers"].send(numbers([(1, 1)]))
    worker.inputs["numbers"].send(numbers([(2, 2)]), at=3)
    rig.settle()
    assert epochs == [0]
    worker.inputs["numbers"].close()
    rig.settle()
    (target,) = [state for each in worker.instances.values() if each.name == "seen" for state in each.inputs]
    assert list(worker.view.tracker.frontier(target.location)) == [(3,)]
    assert epochs == [0]
    assert frontiers[-1] == [(1,)], "the input is closed, and nobody may know before the snapshot"
    rig.save(is_whole=True)
    rig.settle()
    worker.open_to(3)
    rig.settle()
    assert (rig.epoch, epochs) == (0, [0, 3])
    assert frontiers[-1] == [(4,)]
    rig.drop()


@pytest.mark.filterwarnings("ignore:operator 'seen' keeps")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_no_operator_is_shown_anything_beyond_the_next_snapshot(workers: int) -> None:
    seen: list[int] = []
    frontiers: list[list[tuple[int, ...]]] = []
    flow = _watched(seen, frontiers)
    data = rows_of(flow, 8, seed=5)
    rig = Rig(flow.plan, workers, [], random.Random(workers))
    for epoch in range(8):
        rig.feed(epoch, data[epoch])
        rig.save(is_whole=True)
        rig.choose_from.random()
        for instance in (each for worker in rig.workers for each in worker.instances.values() if each.inputs):
            shown = instance.shown_frontier(instance.inputs[0].location)
            assert instance.limit is not None
            assert all(time[0] <= instance.limit + 1 for time in shown)
            assert instance.limit <= instance.snapped + 1
            assert not any(time[0] > instance.limit for _, time, _ in instance.inbox)
    rig.settle()
    assert rig.epoch == 7
    rig.drop()


def test_a_tick_that_is_read_again_does_not_narrow_what_was_let_in() -> None:
    flow = FLOWS["running"]()
    first = Rig(flow.plan, 1, [], random.Random(0))
    for epoch in range(3):
        first.feed(epoch, {"numbers": numbers([(1, 1)])})
    first.save(is_whole=True)
    first.settle()
    again = Rig(flow.plan, 1, first.chain, random.Random(0))
    again.workers[0].open_to(0)
    limits = {each.limit for each in again.workers[0].instances.values() if each.inputs}
    assert limits == {2}
    first.drop()
    again.drop()


# Refusals.


class Forgetful(Windows):
    def on_restore(self, context: ps.ports.Context) -> None:
        """Takes nothing back."""


def _after_one_epoch(flow: ps.Dataflow, pairs: list[tuple[int, int]]) -> Chain:
    rig = Rig(flow.plan, 1, [], random.Random(0))
    rig.feed(0, {"numbers": numbers(pairs)})
    rig.save(is_whole=True)
    rig.settle()
    rig.drop()
    return rig.chain


def _flow_with(logic: ps.ports.DeclaredOperator[str]) -> ps.Dataflow:
    flow = ps.Dataflow("refused")
    flow.output(
        "out", ps.operator("mine", logic, x=flow.stream_input("numbers", "k long, v long").exchange("k"))
    )
    return flow


def test_an_operator_that_does_not_take_its_capabilities_back_is_named() -> None:
    flow = _flow_with(Forgetful())
    chain = _after_one_epoch(flow, [(1, 1)])
    with pytest.raises(FlowError, match=r"operator 'mine' held capabilities for \(1,\) when it was saved"):
        Rig(flow.plan, 1, chain, random.Random(0))


class Keeper:
    outputs = "k long, v long"

    def __init__(self) -> None:
        self.limit = 5
        self.counts: dict[int, int] = {}
        self.last = 0

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.last = context.epoch + 1
        for k in batch.column("k").to_pylist():
            self.counts[k] = self.counts.get(k, 0) + 1


class Declared(Keeper):
    state: ClassVar = {"counts": saved.mapping("long", int), "last": saved.values(int)}


def test_an_operator_that_keeps_something_without_declaring_it_is_named_once() -> None:
    flow = _flow_with(Keeper())
    with pytest.warns(PointstampWarning, match="operator 'mine' keeps counts, last and declares no state"):
        _after_one_epoch(flow, [(1, 1)])
    rig = Rig(flow.plan, 1, [], random.Random(0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for epoch in range(3):
            rig.feed(epoch, {"numbers": numbers([(epoch, 1)])})
            rig.save(is_whole=True)
            rig.settle()
    assert len(said) == 1
    rig.drop()


@pytest.mark.parametrize("logic", [Declared(), Windows(), Reminders()])
def test_declared_state_and_held_capabilities_need_no_warning(logic: ps.ports.DeclaredOperator[str]) -> None:
    _after_one_epoch(_flow_with(logic), [(1, 1), (2, 2)])


class Tally:
    """Has no outputs, and takes its state when an epoch is complete."""

    state: ClassVar = {"totals": saved.values(dict[int, int])}

    def __init__(self) -> None:
        self.totals: dict[int, int] = {}
        self._rows: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._rows[context.epoch] = self._rows.get(context.epoch, 0) + batch.num_rows
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        self.totals[context.epoch] = self._rows.pop(context.epoch)


@pytest.mark.parametrize("seed", range(5))
def test_what_an_operator_without_outputs_does_at_the_end_of_an_epoch_is_saved_with_it(seed: int) -> None:
    flow = ps.Dataflow("tallied")
    ps.operator("tally", Tally(), outputs={}, x=flow.stream_input("numbers", "k long, v long"))
    chain: Chain = []
    for epoch in range(4):
        rig = Rig(flow.plan, 2, chain, random.Random(seed))
        rig.feed(epoch, {"numbers": numbers([(1, 1), (2, 2), (3, 3)])})
        rig.save(is_whole=epoch % 2 == 0)
        rig.settle()
        assert rig.epoch == epoch
        chain = rig.chain
        tallies = [
            each.logic for worker in rig.workers for each in worker.instances.values() if each.name == "tally"
        ]
        assert sum(n for tally in tallies for n in tally.totals.values()) == 3 * (epoch + 1)
        rig.drop()


def test_what_was_not_there_when_the_flow_was_saved_starts() -> None:
    flow = FLOWS["running"]()
    chain = _after_one_epoch(flow, [(1, 1)])
    numbers_in = flow.stream_input("more", "k long, v long")
    flow.output("windows", ps.operator("windows", Windows(), x=numbers_in.exchange("k")))
    rig = Rig(flow.plan, 1, chain, random.Random(0))
    rig.feed(1, {"numbers": numbers([(1, 1)]), "more": numbers([(5, 5)])})
    rig.feed(2, {})
    rig.save(is_whole=True)
    rig.settle()
    assert rig.published() == {("counts", 1): [(1, 2)], ("windows", 2): [(5, 5)]}
    rig.drop()


def test_a_worker_that_is_restored_says_which_epoch_it_goes_on_from() -> None:
    flow = FLOWS["running"]()
    chain = _after_one_epoch(flow, [(1, 1)])
    restored = restored_from(chain, 0, 1)
    assert restored.epoch == 0
    rig = Rig(flow.plan, 1, chain, random.Random(0))
    worker: Worker = rig.workers[0]
    assert worker.inputs["numbers"].time == 1
    rig.drop()
