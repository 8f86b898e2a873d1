"""What workers know of their outputs by themselves, and what they keep to themselves, in simulated worlds.

Families, and what only each can find:
- *claims*: after every step of a world each worker is asked up to where its own outputs are complete, and
  nothing may come to that output at such a time later: a tail that is too long, or counted wrongly;
- *kept*: worlds whose workers keep progress that nobody waits for: they are judged, and emitted the same; no
  operator acts only when what was kept is told at last; and a worker that never rests tells now and then;
- *ports*: which ports are inside a tail, at its border, and silent, in flows that are drawn by hand;
- *mutants* of the first two: that these worlds can tell.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.operators.stateless import Collect
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.simulate.case import prepared
from pointstamp.simulate.seeds import first_difference
from pointstamp.simulate.world import Ended, SharedPlan, World, WorldRun
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, SourcePort, Target
from pointstamp.verify.conformance import Status, Verdict, judge
from pointstamp.verify.plan_shape import walker_of
from pointstamp.worker import tails
from pointstamp.worker.events import FrontiersShown, MessagePulled, MessageSent, Notified, ProgressSent
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import Message
from pointstamp.worker.routes import routes_of
from pointstamp.worker.tails import HELD_EXCHANGES_MAX, OwnTails, Tail, tail_of
from pointstamp.worker.worker import Worker
from support.worlds import SCHEMA, Steps, Waits, Watches, busy_flow, doors_flow, inputs_of

Patch = pytest.MonkeyPatch
WORKERS = 3
SEEDS = range(8)


class Passes:
    """Sends on what is more than one, and asks for no time."""

    outputs = SCHEMA

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send([row for row in batch.to_pylist() if row["n"] > 1])


def tailed_flow() -> ps.Dataflow:
    """Outputs behind an operator, behind nothing, behind an exchange, and behind two ways that meet."""
    flow = ps.Dataflow("tailed")
    rows = flow.stream_input("rows", SCHEMA)
    steps = ps.operator("steps", Steps(), rows=rows.exchange("key"))
    stayed = ps.operator("passes", Passes(), rows=steps)
    flow.output("stepped", stayed)
    flow.output("same", rows)
    flow.output("moved", rows.exchange("key"))
    flow.output("both", stayed.union(rows))
    return flow


FLOWS = {"tailed": tailed_flow, "busy": busy_flow, "doors": doors_flow}


class OverClaimedError(AssertionError):
    """Something came to an output at a time that its worker had taken for complete."""


class Claims(World):
    """Asks each worker after each step what is complete at its own outputs."""

    def __init__(self, plan: Plan, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as a world takes it
        super().__init__(plan, *given, has_tails=True, **named)
        self._graph = plan.graph()
        outputs = plan.named(NodeKind.OUTPUT).values()
        self._outputs = [self._graph.location(Target(node.index, 0)) for node in outputs]
        self._claims: dict[tuple[int, Location], list[Time]] = {}
        self._looked = 0
        self.early = 0
        """How often a worker knew more of its own output than of that of all."""

    def _step(self, number: int) -> None:
        super()._step(number)
        self._look()

    def _feed(self) -> None:
        super()._feed()
        self._look()

    def _look(self) -> None:
        events = self._log.events
        for event in events[self._looked :]:
            if isinstance(event, MessageSent):
                self._check(event.receiver, event.target, event.time)
            elif isinstance(event, MessagePulled):
                self._check(event.worker, event.location, event.time)
        self._looked = len(events)
        for worker in self._workers:
            assert worker.tails is not None
            for output in self._outputs:
                claim = worker.tails.frontier(output)
                self._claims[worker.worker, output] = claim
                known = worker.view.tracker.frontier(output)
                self.early += not all(self._may_come(claim, output, time) for time in known)

    def _check(self, worker: int, location: Location, time: Time) -> None:
        claim = self._claims.get((worker, location))
        if claim is not None and not self._may_come(claim, location, time):
            raise OverClaimedError(f"worker {worker} at {self._graph.describe(location)}: {time}, {claim}")

    def _may_come(self, claim: Iterable[Time], location: Location, time: Time) -> bool:
        less_equal = self._graph.domains[location].less_equal
        return any(less_equal(lower, time) for lower in claim)


def world_of(name: str, seed: int, *, workers: int = WORKERS) -> tuple[Claims, WorldRun, Verdict]:
    plan = SharedPlan.of(FLOWS[name]().plan)
    world = Claims(plan, prepared(plan, inputs_of(plan)), workers=workers, seed=seed)
    run = world.run()
    at_rest = run.ended in (Ended.COMPLETE, Ended.STUCK)
    return world, run, judge(walker_of(plan), workers, run.events, at_rest=at_rest)


@pytest.mark.parametrize("name", FLOWS)
def test_nothing_comes_to_an_output_after_its_worker_has_taken_a_time_for_complete(name: str) -> None:
    _, expected, _ = world_of(name, 0, workers=1)
    early = 0
    for seed in SEEDS:
        world, run, verdict = world_of(name, seed)
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        assert verdict.status is Status.VALID, (seed, verdict)
        assert first_difference(expected.outputs, run.outputs, None) is None, seed
        early += world.early
    assert bool(early) == (name != "doors"), "in a loop's tail alone nobody knows anything by himself"


@pytest.mark.long
@pytest.mark.parametrize("name", FLOWS)
def test_nothing_comes_to_an_output_that_is_taken_for_complete_in_many_worlds(name: str) -> None:
    _, expected, _ = world_of(name, 0, workers=1)
    for seed in range(400):
        _, run, verdict = world_of(name, seed, workers=1 + seed % 5)
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        assert verdict.status is Status.VALID, (seed, verdict)
        assert first_difference(expected.outputs, run.outputs, None) is None, seed


# Mutants: what is claimed.


def exchanges_are_taken_for_staying(patch: Patch) -> None:
    def senders(port: Target, graph: OperatorGraph, routes: tails.Routes) -> list[Location]:
        location = graph.location(port)
        return [
            graph.location(SourcePort(operator, number))
            for (operator, number), ways in routes.items()
            for way in ways
            if way.location == location
        ]

    patch.setattr(tails, "_senders", senders)


def borders_are_forgotten(patch: Patch) -> None:
    def without(*given: Any) -> Tail:  # noqa: ANN401 - as the function takes it
        return tail_of(*given)._replace(borders=())

    patch.setattr(tails, "tail_of", without)


def _recording(patch: Patch, is_counted: Callable[[OwnTails, Change], bool]) -> None:
    record = OwnTails.record

    def some(self: OwnTails, changes: Iterable[Change]) -> None:
        record(self, [each for each in changes if is_counted(self, each)])

    patch.setattr(OwnTails, "record", some)


def messages_inside_are_not_counted(patch: Patch) -> None:
    def is_port_of_rights(self: OwnTails, change: Change) -> bool:
        return isinstance(self._tracker.graph.ports[change.location], SourcePort)

    _recording(patch, is_port_of_rights)


def capabilities_are_dropped_and_never_taken(patch: Patch) -> None:
    def is_not_taken(self: OwnTails, change: Change) -> bool:
        return change.diff < 0 or isinstance(self._tracker.graph.ports[change.location], Target)

    _recording(patch, is_not_taken)


@pytest.mark.parametrize(
    "mutant",
    [
        exchanges_are_taken_for_staying,
        borders_are_forgotten,
        messages_inside_are_not_counted,
        capabilities_are_dropped_and_never_taken,
    ],
)
def test_a_worker_that_claims_too_much_is_found(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    errors = [world_of("tailed", seed)[1].error for seed in SEEDS]
    assert any(isinstance(error, OverClaimedError) for error in errors), errors


# Kept.


def silent_flow() -> ps.Dataflow:
    """Nothing goes from worker to worker, and nobody asks for times."""
    flow = ps.Dataflow("silent")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("out", ps.operator("passes", Passes(), rows=rows))
    return flow


def test_what_nobody_waits_for_is_told_seldom_and_in_the_end() -> None:
    plan = SharedPlan.of(silent_flow().plan)
    told = []
    for has_tails in (False, True):
        run = World(plan, prepared(plan, inputs_of(plan)), workers=2, seed=3, has_tails=has_tails).run()
        assert run.ended is Ended.COMPLETE, run.reason
        assert judge(walker_of(plan), 2, run.events, at_rest=True).status is Status.VALID
        told.append(sum(isinstance(event, ProgressSent) for event in run.events))
    assert told[1] < told[0]


def test_a_worker_that_keeps_it_for_ever_is_found(monkeypatch: Patch) -> None:
    keeps = OwnTails.keeps
    monkeypatch.setattr(OwnTails, "keeps", lambda self: not self._must_tell or keeps(self))
    monkeypatch.setattr(OwnTails, "is_holding", False)
    plan = SharedPlan.of(silent_flow().plan)
    run = World(plan, prepared(plan, inputs_of(plan)), workers=2, seed=3, has_tails=True).run()
    assert run.ended is Ended.STUCK
    assert judge(walker_of(plan), 2, run.events, at_rest=True).property == "Completes"


def watching_flow() -> ps.Dataflow:
    """Nothing goes from worker to worker, and who waits for times only looks at frontiers."""
    flow = ps.Dataflow("watching")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("out", ps.operator("watches", Watches(), rows=ps.operator("passes", Passes(), rows=rows)))
    return flow


def asking_flow() -> ps.Dataflow:
    """Nothing goes from worker to worker, and who waits for times asks for them."""
    flow = ps.Dataflow("asking")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("out", ps.operator("waits", Waits(), rows=ps.operator("passes", Passes(), rows=rows)))
    return flow


class WaitedForError(AssertionError):
    """An operator acted only when progress was told that had been kept; or it was kept after that, too."""


class Kept(World):
    """Sees what happens once there is nothing left to do but to tell what was kept."""

    _must_tell: frozenset[int] = frozenset()

    def _step(self, number: int) -> None:
        begun = len(self._log.events)
        super()._step(number)
        if number in self._must_tell:
            self._must_tell -= {number}
            told = [each for each in self._log.events[begun:] if isinstance(each, ProgressSent)]
            if number not in {each.worker for each in told}:
                raise WaitedForError(f"worker {number} still keeps what it was to tell")

    def _let_tell(self) -> bool:
        begun = len(self._log.events)
        self._must_tell |= {number for number, each in enumerate(self._workers) if each.is_holding}
        does_tell = super()._let_tell()
        if does_tell and not hasattr(self, "_told_at"):
            self._told_at = begun
        return does_tell

    def _end(self) -> None:
        super()._end()
        inner = {node.index for node in self._plan.nodes if node.kind is NodeKind.OPERATOR}
        for event in self._log.events[getattr(self, "_told_at", len(self._log.events)) :]:
            if isinstance(event, (Notified, FrontiersShown)) and event.operator in inner:
                raise WaitedForError(f"operator {event.operator} has waited for what was kept: {event}")


KEEPING = {"silent": silent_flow, "watching": watching_flow, "asking": asking_flow, "tailed": tailed_flow}


def keep_in(name: str, seeds: Iterable[int]) -> None:
    """The first world in which an operator waits for what is kept, or that differs, is an error."""
    plan = SharedPlan.of(KEEPING[name]().plan)
    inputs = prepared(plan, inputs_of(plan))
    expected = World(plan, inputs, workers=1, seed=0).run()
    for seed in seeds:
        run = Kept(plan, inputs, workers=WORKERS, seed=seed, has_tails=True).run()
        if run.error is not None:
            raise run.error
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        assert judge(walker_of(plan), WORKERS, run.events, at_rest=True).status is Status.VALID, seed
        assert first_difference(expected.outputs, run.outputs, None) is None, seed


@pytest.mark.parametrize("name", KEEPING)
def test_no_operator_waits_for_progress_that_is_kept(name: str) -> None:
    keep_in(name, SEEDS)


def who_only_looks_at_frontiers_is_not_thought_of(patch: Patch) -> None:
    _asking_only(patch, lambda each: each.authority.can_be_notified)


def who_asks_to_be_notified_is_not_thought_of(patch: Patch) -> None:
    _asking_only(patch, lambda each: each.on_frontier is not None)


def _asking_only(patch: Patch, asks: Callable[[Instance], bool]) -> None:
    ports = tails.silent_ports

    def silent_ports(graph: OperatorGraph, routes: tails.Routes, instances: Any) -> frozenset[Location]:  # noqa: ANN401
        found = set(ports(graph, routes, instances))
        if any(asks(each) for each in instances.values() if not isinstance(each.logic, Collect)):
            return frozenset(found)
        return frozenset(
            state.location for each in instances.values() for state in (*each.inputs, *each.outputs)
        )

    patch.setattr(tails, "silent_ports", silent_ports)


@pytest.mark.parametrize(
    ("mutant", "flow"),
    [
        (who_only_looks_at_frontiers_is_not_thought_of, "watching"),
        (who_asks_to_be_notified_is_not_thought_of, "asking"),
    ],
)
def test_progress_that_is_kept_from_those_who_wait_for_it_is_found(
    mutant: Callable[[Patch], None], flow: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(WaitedForError, match="has waited for what was kept"):
        keep_in(flow, SEEDS)


def tell_while_busy(epochs: int) -> list[int]:
    """After which epochs a worker that never rests has told the other one something."""
    flow = silent_flow()
    sent: list[Message] = []

    class Away(Nowhere):
        def send(self, peer: int, message: Message) -> None:
            sent.append(message)

    worker = Worker(flow.plan, Away(), WorkerIndex(0), 2, has_tails=True)
    told = []
    for epoch in range(epochs):
        worker.inputs["rows"].send([{"key": "a", "n": epoch}])
        worker.inputs["rows"].advance_to(epoch + 1)
        before = len(sent)
        while worker._active:
            worker.step()
        worker.step()
        if len(sent) > before:
            told.append(epoch)
    return told


def check_told_often_enough(told: list[int], epochs: int) -> None:
    gaps = [later - earlier for earlier, later in zip([-1, *told], [*told, epochs], strict=True)]
    assert max(gaps) <= HELD_EXCHANGES_MAX + 2, gaps
    assert len(told) < epochs / 2, "it keeps what nobody waits for"


def test_a_worker_that_never_rests_tells_what_it_keeps_now_and_then() -> None:
    check_told_often_enough(tell_while_busy(300), 300)


def test_a_worker_that_never_rests_and_keeps_everything_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(tails, "HELD_EXCHANGES_MAX", 10**9)
    with pytest.raises(AssertionError, match=r"assert 300 <= "):
        check_told_often_enough(tell_while_busy(300), 300)


def test_a_worker_that_is_told_to_keep_nothing_and_does_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(OwnTails, "hold_no_longer", lambda self: None)
    with pytest.raises(WaitedForError, match="still keeps"):
        keep_in("silent", SEEDS)


# Ports.


class Nowhere:
    """A transport to nobody."""

    def send(self, peer: int, message: Message) -> None:
        raise AssertionError(f"a message to worker {peer}: {message}")

    def receive(self) -> tuple[Message, ...]:
        return ()


def ports_of(flow: ps.Dataflow) -> tuple[dict[str, tuple[set[str], set[str]]], set[str]]:
    """In words: for each output the ports inside its tail and at its border, and the silent ports."""
    plan = flow.plan
    graph = plan.graph()
    found = {}
    for name, node in plan.named(NodeKind.OUTPUT).items():
        tail = tail_of(graph.location(Target(node.index, 0)), graph, routes_of(plan, graph))
        found[name] = ({*map(graph.describe, tail.inside)}, {*map(graph.describe, tail.borders)})
    worker = Worker(plan, Nowhere(), has_tails=True)
    assert worker.tails is not None
    return found, {*map(graph.describe, worker.tails._silent)}


def test_a_tail_begins_behind_the_last_exchange_and_silence_behind_the_last_who_asks_for_times() -> None:
    found, silent = ports_of(tailed_flow())
    asks = "input 0 of 'steps'"
    behind = {"output 0 of 'steps'", "input 0 of 'passes'", "output 0 of 'passes'"}
    assert found["stepped"] == (behind | {"input 0 of 'stepped'"}, {asks})
    assert found["same"] == ({"output 0 of 'rows'", "input 0 of 'same'"}, set())
    assert found["moved"] == (set(), {"input 0 of 'moved'"})
    assert found["both"][1] == {asks}
    assert behind <= silent
    assert not {asks, "output 0 of 'rows'"} & silent
    assert ports_of(silent_flow())[1] >= {"output 0 of 'rows'", "input 0 of 'passes'"}


def test_a_tail_ends_at_the_doors_of_a_loop() -> None:
    found, _ = ports_of(busy_flow())
    assert found["down"] == (set(), {"input 0 of 'down'"})
