"""A simulated world: real workers under a seeded network, clock and scheduler.

The workers are the production ``Worker``; only what they ask of the outside is replaced. The seed decides
which worker steps next and which of its operators acts, how long messages take and in which order those of
different pairs arrive, who is slow and who stalls, how rows are split and dealt to the workers, when inputs
advance, and how often progress is told. The same flow, inputs and seed give the same events in any process.

A run is bounded: it ends where nothing can happen any more, or where an operator fails, or at a limit. There
is not simulated: storage, because no worker asks for it.
"""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import pyarrow as pa

from pointstamp.flow.plan import Plan
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.feed import Items, Script, deal
from pointstamp.simulate.network import Choices, SimulatedClock, SimulatedNetwork, SimulatedTransport
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.worker.events import Event
from pointstamp.worker.worker import SILENT_ACTIVATIONS_MAX, Worker

STEPS_MAX: Final = 20_000
"""A run is given up after so many steps of workers and inputs together."""

# What a world may be like; the first of each is the plain one.
PACES: Final = (1, 1, 1, 4, 16)
DELAYS_MAX: Final = (0, 2, 12, 60)
_FEEDS_ONE_IN: Final = (0, 2, 6, 20)
_STALLS_ONE_IN: Final = (0, 0, 100, 15)
_STALL_TICKS_MAX: Final = 200
SILENT_ACTIVATIONS: Final = (SILENT_ACTIVATIONS_MAX, 1, 2, 5)


class Ended(Enum):
    """The end of a run."""

    COMPLETE = "complete"
    STUCK = "stuck"
    FAILED = "failed"
    GIVEN_UP = "given up"


@dataclass(slots=True)
class WorldRun:
    """The record of a world: events, outputs by time, its end, and its choices."""

    events: list[Event]
    outputs: dict[tuple[str, Time], list[pa.RecordBatch]]
    ended: Ended = Ended.GIVEN_UP
    reason: str = ""
    error: Exception | None = None
    choices: list[int] = field(default_factory=list)
    steps: int = 0
    crashes: int = 0
    """The number of crashes; 0 in a world without a driver."""


class SharedPlan(Plan):
    """A plan whose graph is built once for all worlds; a graph never changes."""

    @classmethod
    def of(cls, plan: Plan) -> "SharedPlan":
        """The same nodes, with the graph at hand."""
        shared = cls(
            plan.name, plan.root, plan.nodes, plan.broadcast, plan.memory, plan.has_chains, plan.time_zone
        )
        shared.built = plan.graph()
        return shared

    built: OperatorGraph

    def graph(self) -> OperatorGraph:
        """The graph, without building it again."""
        return self.built


class _WorldLog:
    """Keeps every event in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.record = self.events.append


class World:
    """One world; ``run`` lets it happen, once."""

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Items],
        *,
        workers: int,
        seed: int,
        kept: frozenset[int] | None = None,
        steps_max: int = STEPS_MAX,
        has_tails: bool = False,
    ) -> None:
        self._choices = choices = Choices(seed, kept)
        self._clock = SimulatedClock()
        self._network = SimulatedNetwork(workers, self._clock, choices)
        self._plan = plan
        self._inputs = inputs
        self._count = workers
        self._steps_max = steps_max
        self._has_tails = has_tails
        self._log = _WorldLog()
        self._run = WorldRun(self._log.events, {})
        self._workers: list[Worker] = []
        self._scripts: list[tuple[int, Script]] = []
        self._paces = [one_of(choices, PACES) for _ in range(workers)]
        for receiver in range(workers):
            for sender in range(workers):
                self._network.delays_max[receiver][sender] = one_of(choices, DELAYS_MAX)
        self._feeds_one_in = one_of(choices, _FEEDS_ONE_IN)
        self._stalls_one_in = one_of(choices, _STALLS_ONE_IN)
        self._silent_activations_max = one_of(choices, SILENT_ACTIVATIONS)
        self._stalled_until = [0] * workers
        self._is_idle = [False] * workers
        self._turn = 0

    def run(self) -> WorldRun:
        """Let it happen until nothing can happen any more, something fails, or the limit is reached."""
        run = self._run
        # A capability in a cycle of references would be released whenever the collector comes by.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._begin()
            self._go_on()
        except Exception as error:
            run.ended, run.error = Ended.FAILED, error
            run.reason = f"{type(error).__name__}: {error}"
        finally:
            if collects:
                gc.enable()
            for worker in self._workers:
                worker.close()
        run.choices = self._choices.made
        return run

    def _begin(self) -> None:
        for number in range(self._count):
            worker = Worker(
                self._plan,
                SimulatedTransport(self._network, WorkerIndex(number)),
                WorkerIndex(number),
                self._count,
                deliver=self._deliver,
                chooser=self._choices,
                log=self._log,
                has_tails=self._has_tails,
            )
            worker.silent_activations_max = self._silent_activations_max
            self._workers.append(worker)
        for name, of_workers in deal(self._inputs, self._count, self._choices).items():
            for number, parts in enumerate(of_workers):
                handle = self._workers[number].input(name)
                self._scripts.append((number, Script(handle, self._inputs[name], parts)))

    def _go_on(self) -> None:
        run = self._run
        while run.steps < self._steps_max:
            ready = self._ready()
            if self._scripts and (not ready or self._choices.happens(self._feeds_one_in)):
                self._feed()
            elif ready:
                self._step(ready[self._choices.choose(len(ready))])
            elif not self._network.in_flight and all(self._is_idle) and not self._let_tell():
                self._end()
                return
            self._clock.ticks += 1
        run.reason = f"it had not come to an end after {run.steps} steps"

    def _let_tell(self) -> bool:
        """Let workers that keep progress tell it, as they do after a while; False if none keeps any."""
        for number, worker in enumerate(self._workers):
            if worker.is_holding:
                worker.hold_no_longer()
                self._is_idle[number] = False
        return not all(self._is_idle)

    def _end(self) -> None:
        if all(worker.is_complete for worker in self._workers):
            self._run.ended = Ended.COMPLETE
            return
        self._run.ended = Ended.STUCK
        self._run.reason = "nothing is left to do, all inputs are closed, and some time is not complete"

    def _ready(self) -> list[int]:
        """The workers that could do something now, beginning with whose turn it is."""
        now = self._clock.ticks
        return [
            number
            for number in (*range(self._turn, self._count), *range(self._turn))
            if now >= self._stalled_until[number]
            and now % self._paces[number] == 0
            and (not self._is_idle[number] or self._network.has_arrived(WorkerIndex(number)))
        ]

    def _step(self, number: int) -> None:
        self._run.steps += 1
        self._is_idle[number] = not self._workers[number].step()
        self._turn = (number + 1) % self._count
        if self._choices.happens(self._stalls_one_in):
            self._stalled_until[number] = self._clock.ticks + self._choices.choose(_STALL_TICKS_MAX)

    def _feed(self) -> None:
        self._run.steps += 1
        chosen = self._choices.choose(len(self._scripts))
        number, script = self._scripts[chosen]
        script.act()
        self._is_idle[number] = False
        if script.is_over:
            del self._scripts[chosen]

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        self._run.outputs.setdefault((output, time), []).extend(batches)


def one_of(choices: Choices, options: tuple[int, ...]) -> int:
    """One of these, the first where the choice is not made."""
    return options[choices.choose(len(options))]
