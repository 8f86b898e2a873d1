"""Aligned borders before the judge: programs, published counts, broken variants, and explanations.

The model is that of Veresov et al. 2024. The published counts are of the incremental average with Reset,
alone and followed by a task that forwards: its "3 data events" are the integers 1 | 3 5, and the Reset of
epoch 2 comes in addition. The count of failures that are still allowed is part of a state.

Every mutant overrides one method. The failure-free runs against which Explain compares are always those of
the published rules with the published out, so a mutant cannot bend its own specification.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, TypeAlias

from pointstamp_models.exploring.causality import apply_trace, preserves_causality, random_permutation
from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp_models.exploring.explorer import DEADLOCK
from pointstamp_models.exploring.incremental_average import AVERAGE, INPUTS, figure
from pointstamp_models.exploring.transparency import (
    Execution,
    every_execution,
    first_unexplained,
    random_executions,
    side_by_side,
    split_generations,
)
from pointstamp_models.spec.border_rules import Archive, Configuration, LocalStep, snapshot
from pointstamp_models.spec.borders import AlignedBorders
from pointstamp_models.spec.streaming import BORDER, Epoch, Event, Message, Stream, Task, Value

Inputs: TypeAlias = Mapping[Stream, Sequence[Sequence[Event]]]


def forward(value: Value, event: Event) -> tuple[Value, tuple[Event, ...]]:
    """Emit every event as it is."""
    return value, (event,)


def tenfold(value: Value, event: Event) -> tuple[Value, tuple[Event, ...]]:
    """Emit ten times every event, so that it can be told from the event itself."""
    return value, (10 * event,)


def swallow(value: Value, event: Event) -> tuple[Value, tuple[Event, ...]]:
    """Emit nothing, so that a cycle comes to rest."""
    return value, ()


def in_order(value: Value, event: Event) -> tuple[Value, tuple[Event, ...]]:
    """Emit the events so far in the order in which they came, which tells every two interleavings apart."""
    return (*value, event), ((*value, event),)


CHAIN: Final = (AVERAGE, Task("forward", forward, ("avgs",), "forwarded", ()))

SHORT_INPUTS: Final[Inputs] = {"ints": ((1,), (3,)), "resets": ((), ())}
"""So short that two tasks with one failure have only thousands of executions."""

PARALLEL: Final = (
    Task("left", forward, ("lefts",), "left_out", ()),
    Task("right", forward, ("rights",), "right_out", ()),
)
PARALLEL_INPUTS: Final[Inputs] = {"lefts": ((1,),), "rights": ((2,),)}

DIAMOND: Final = (
    Task("split", forward, ("numbers",), "parts", ()),
    Task("same", forward, ("parts",), "ones", ()),
    Task("scale", tenfold, ("parts",), "tens", ()),
    Task("join", in_order, ("ones", "tens"), "joined", ()),
)
DIAMOND_INPUTS: Final[Inputs] = {"numbers": ((1,), (2,))}

ONE_EPOCH: Final[Inputs] = {"ints": ((1, 3),), "resets": ((),)}
"""Two integers before the first border, so that a task that forgets the first shows another average."""

CYCLE: Final = (
    Task("enter", forward, ("numbers", "back"), "forth", ()),
    Task("again", swallow, ("forth",), "back", ()),
)


class NoAlignment(AlignedBorders):
    """M4.1: borders are consumed stream by stream, and events behind a consumed border are accepted."""

    def task_steps(self, state: Configuration, p: int, epoch: Epoch, value: Value) -> Iterator[LocalStep]:
        """The border of the last stream takes the snapshot; until then all events count for this epoch."""
        task, (archive, volatile) = self.tasks[p], state.sigma[p]
        read = dict(zip(task.inputs, state.cursors[p], strict=False))
        waiting = [
            s for s, n, e, d in state.messages if d == BORDER and e == epoch and n >= read.get(s, n + 1)
        ]
        for stream, message_epoch, datum in self.next_messages(state, p):
            if datum != BORDER:
                yield self.event_step(task, archive, (epoch, value), (stream, message_epoch, datum))
            elif waiting == [stream]:
                actions = (("-", stream, epoch, BORDER), ("+", task.output, epoch, BORDER))
                yield "I-BORDER", actions, snapshot(archive, epoch, value)
            elif stream in waiting:
                yield "HALF-BORDER", (("-", stream, epoch, BORDER),), (archive, volatile)


class GceIsLargest(AlignedBorders):
    """M4.2: gce is the maximum of the newest snapshots instead of the minimum."""

    def gce(self, state: Configuration) -> Epoch:
        """One task with a snapshot is enough."""
        return max(archive[-1][0] for archive, _ in state.sigma)


class NoPurge(AlignedBorders):
    """M4.3: recovery leaves the messages of undone epochs in their streams."""

    def restored_messages(self, state: Configuration) -> tuple[Message, ...]:
        """All messages stay."""
        return state.messages


class CursorsKept(AlignedBorders):
    """M4.4: recovery leaves the cursors where they are."""

    def restored_cursors(self, state: Configuration) -> tuple[tuple[int, ...], ...]:
        """No task reads or writes anything again."""
        return state.cursors


class RestartAtGce(AlignedBorders):
    """M4.5: a recovered task restarts in the epoch of the snapshot, as the paper's listing 2 prints it."""

    def restart_epoch(self, gce: Epoch) -> Epoch:
        """The epoch that is committed already."""
        return gce


class VisibleAtEmission(AlignedBorders):
    """M4.6: what a task emits is visible at once, without the filter by gce."""

    def observe(self, state: Configuration) -> tuple[Message, ...]:
        """Sources appear as their epochs are committed; everything that a task has written appears now."""
        gce = self.gce(state)
        return tuple(m for m in state.messages if m[2] <= gce or m[0] not in self.inputs)


class ArchivesKept(AlignedBorders):
    """M4.7: recovery keeps snapshots above gce."""

    def restored_archive(self, archive: Archive, gce: Epoch) -> Archive:
        """Nothing is forgotten."""
        return archive


class LocalRecovery(AlignedBorders):
    """M4.8: only the failed tasks are restored, each to its snapshot of gce; cursors and messages stay."""

    def recover(self, state: Configuration) -> Configuration:
        """The tasks that run continue as if nothing had happened."""
        restored = self.lcs(state).sigma
        sigma = tuple(new if old[1] is None else old for old, new in zip(state.sigma, restored, strict=True))
        return state._replace(sigma=sigma)


class CyclesAdmitted(AlignedBorders):
    """A graph with a cycle is admitted, against definition 6.8."""

    def reject_cycles(self) -> None:
        """Every graph will do."""


def _explained(model: AlignedBorders, executions: Iterator[Execution[Configuration]]) -> Outcome:
    explained, unexplained = first_unexplained(model, executions, specified=model.specification.out)
    if unexplained is None:
        return Outcome(True, explained, f"{explained} executions have a failure-free explanation")
    return Outcome(False, explained + 1, side_by_side(model, unexplained))


def explain_every(tasks: Sequence[Task], inputs: Inputs, failures: int) -> Outcome:
    """Every execution of the program has a failure-free explanation."""
    model = AlignedBorders(tasks, inputs, failures=failures)
    return _explained(model, every_execution(model))


def explain_random(tasks: Sequence[Task], inputs: Inputs, failures: int, number: int) -> Outcome:
    """Random executions of the program have failure-free explanations."""
    model = AlignedBorders(tasks, inputs, failures=failures)
    return _explained(model, random_executions(model, seed=number, number=number))


def reorder_generations(tasks: Sequence[Task], inputs: Inputs, failures: int, number: int) -> Outcome:
    """The partition keeps causality (B.7); it and random orders that do end where the original does (6.5)."""
    model = AlignedBorders(tasks, inputs, failures=failures)
    random = Random(number)  # noqa: S311 - reproducible, not secret
    cases = 0
    for execution in random_executions(model, seed=number, number=number):
        for generation in split_generations(model, execution):
            if not generation.steps:
                continue
            first, last = generation.steps[0].position, generation.steps[-1].position
            trace = [step.label for step in generation.steps]
            partition = [step.position - first for step in generation.reordered]
            if not preserves_causality(model, trace, partition):
                return Outcome(False, cases, f"the partition {partition} of {trace} breaks causality")
            for order in (partition, random_permutation(model, trace, random)):
                cases += 1
                end = apply_trace(model, execution[first - 1][1], [trace[i] for i in order])
                if end != execution[last][1]:
                    return Outcome(False, cases, f"the order {order} of {trace} ends elsewhere")
    return Outcome(True, cases, f"{cases} reordered generations end in the same configuration")


def explain_figure() -> Outcome:
    """The execution of figure 10 has an explanation."""
    explanation = figure()
    found = (
        f"{len(explanation.mapping)} configurations are seen in {len(explanation.states)} without failures"
    )
    return Outcome(explanation.flaw is None, 1, explanation.flaw or found)


_average = partial(AlignedBorders, (AVERAGE,), INPUTS)
_chain = partial(AlignedBorders, CHAIN, INPUTS)
_diamond = partial(AlignedBorders, DIAMOND, DIAMOND_INPUTS)

ENTRY: Final = Entry(
    name="borders",
    title="Stateful dataflow with aligned borders, failures and recovery (Veresov et al. 2024)",
    instances=(
        Instance("average, no failure", partial(_average, failures=0), states=14, liveness=True),
        Instance("average, 1 failure", partial(_average, failures=1), states=42, liveness=True),
        Instance("average, 2 failures", partial(_average, failures=2), states=70, liveness=True),
        Instance("average and forward, no failure", partial(_chain, failures=0), states=59, liveness=True),
        Instance("average and forward, 1 failure", partial(_chain, failures=1), states=236, liveness=True),
        Instance("average and forward, 2 failures", partial(_chain, failures=2), states=472, liveness=True),
        # No counts are published for a diamond.
        Instance("diamond, no failure", partial(_diamond, failures=0), liveness=True),
        Instance("diamond, 1 failure", partial(_diamond, failures=1), liveness=True),
        Instance("diamond, 2 failures", partial(_diamond, failures=2), liveness=True),
    ),
    mutants=(
        Mutant("M4.1", "no alignment", partial(NoAlignment, (AVERAGE,), INPUTS, failures=0), "Explain"),
        Mutant(
            "M4.2",
            "gce = max of max",
            partial(GceIsLargest, PARALLEL, PARALLEL_INPUTS, failures=0),
            "Explain",
        ),
        Mutant("M4.3", "no purge", partial(NoPurge, (AVERAGE,), INPUTS, failures=1), "SeqUnique"),
        Mutant("M4.4", "N not reset", partial(CursorsKept, (AVERAGE,), INPUTS, failures=1), "Explain"),
        Mutant("M4.5", "restart at gce", partial(RestartAtGce, (AVERAGE,), INPUTS, failures=1), DEADLOCK),
        Mutant(
            "M4.6", "out without gce", partial(VisibleAtEmission, (AVERAGE,), INPUTS, failures=1), "Explain"
        ),
        Mutant(
            "M4.6 after a failure",
            "out without gce",
            partial(VisibleAtEmission, (AVERAGE,), INPUTS, failures=1),
            "OutMono",
        ),
        Mutant(
            "M4.7",
            "archives not truncated",
            partial(ArchivesKept, PARALLEL, PARALLEL_INPUTS, failures=1),
            "Explain",
        ),
        Mutant(
            "M4.8",
            "only the failed task restored",
            partial(LocalRecovery, (AVERAGE,), ONE_EPOCH, failures=1),
            "Explain",
        ),
        Mutant(
            "M4 on a cycle",
            "a graph with a cycle",
            partial(CyclesAdmitted, CYCLE, {"numbers": ((1,),)}, failures=0),
            DEADLOCK,
        ),
    ),
    checks=(
        Check("explained: the execution of figure 10", explain_figure),
        Check(
            "explained: every execution of the average, 2 failures",
            partial(explain_every, (AVERAGE,), INPUTS, 2),
        ),
        Check(
            "explained: every execution of average and forward on a short input, 1 failure",
            partial(explain_every, CHAIN, SHORT_INPUTS, 1),
        ),
        Check(
            "explained: random executions of the diamond, 2 failures",
            partial(explain_random, DIAMOND, DIAMOND_INPUTS, 2, 500),
        ),
        Check(
            "causality: reordered generations of the diamond end alike",
            partial(reorder_generations, DIAMOND, DIAMOND_INPUTS, 2, 100),
        ),
        Check(
            "explained: every execution of average and forward, 1 failure",
            partial(explain_every, CHAIN, INPUTS, 1),
            long=True,
        ),
    ),
)
