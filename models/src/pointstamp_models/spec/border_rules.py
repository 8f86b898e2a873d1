"""The rules of stateful dataflow with aligned borders: events, borders, failures and recovery.

Veresov et al. 2024, section 4.2: I-EVENT, I-BORDER, F-FAIL and F-RECOVER over the streaming rule S-STEP, and
gce, out and lcs (definitions 4.2, 4.3 and 4.5). Corrected against the text: I-EVENT *produces* its outputs
(the text prints a minus), F-RECOVER needs some task in state fl, and a recovered task restarts in epoch
gce + 1 (the text's listing 2 says gce).

A configuration is <Pi, Sigma, N, M, D>. Pi and D = M0 never change, so they are parameters and not part of
the states. Epochs start at 1; every archive holds the initial value under epoch 0, without which gce would
not be defined. Failures are bounded by a count in the state: that makes the states finitely many, and it is
the "finitely many failures" of a fair execution (theorem 6.10).

Each thing that a broken variant changes is a method of its own. What holds of the rules is not said here but
in ``pointstamp_models.spec.borders``.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from pointstamp_models.spec.model import Label, Model
from pointstamp_models.spec.streaming import (
    BORDER,
    Action,
    Datum,
    Epoch,
    Event,
    Message,
    Stream,
    Task,
    Value,
    apply_actions,
    message_set,
    source_messages,
)

Archive: TypeAlias = tuple[tuple[Epoch, Value], ...]
Volatile: TypeAlias = tuple[Epoch, Value] | None
"""<e, v>, or None for a task that has failed (fl)."""
TaskState: TypeAlias = tuple[Archive, Volatile]
LocalStep: TypeAlias = tuple[str, tuple[Action, ...], TaskState]
"""A local step of a task: its rule, its actions X, and the task's next state."""

EVENT_RULE: Final = "I-EVENT"
BORDER_RULE: Final = "I-BORDER"
FAIL_RULE: Final = "F-FAIL"
RECOVER_RULE: Final = "F-RECOVER"


class Configuration(NamedTuple):
    """<Sigma, N, M> and how many failures may still happen; the entries of Sigma and N are in task order."""

    sigma: tuple[TaskState, ...]
    cursors: tuple[tuple[int, ...], ...]
    messages: tuple[Message, ...]
    failures_left: int


class BorderRules(Model[Configuration]):
    """Tasks over streams with aligned borders, which fail at most ``failures`` times.

    ``inputs`` gives for each source stream its events epoch by epoch, equally many epochs on each: liveness
    needs the border of every epoch on every source.
    """

    name: ClassVar[str] = "border rules"
    state_type: ClassVar[type[Any]] = Configuration

    def __init__(
        self, tasks: Sequence[Task], inputs: Mapping[Stream, Sequence[Sequence[Event]]], *, failures: int
    ) -> None:
        self.tasks = tuple(tasks)
        self.inputs = inputs
        self.failures = failures
        self.sources = source_messages(inputs)
        self.epochs = max(len(epochs) for epochs in inputs.values())
        self._reject_malformed()

    def _reject_malformed(self) -> None:
        """Only the valid initial configurations of definition 6.8 are models."""
        written = [*self.inputs, *(task.output for task in self.tasks)]
        if len(set(written)) < len(written):
            raise ValueError(f"each stream needs one producer, but the producers write {written}")
        for task in self.tasks:
            if not task.inputs or len(set(task.inputs)) < len(task.inputs) or set(task.inputs) - set(written):
                raise ValueError(f"task {task.name!r} needs distinct inputs among {written}: {task.inputs}")
        if any(len(epochs) != self.epochs for epochs in self.inputs.values()):
            raise ValueError(f"every source needs the borders of all {self.epochs} epochs: {self.inputs}")
        self.reject_cycles()

    def reject_cycles(self) -> None:
        """On a cycle a task would wait for a border that only its own border step can produce."""
        try:
            TopologicalSorter({task.output: task.inputs for task in self.tasks}).prepare()
        except CycleError as cycle:
            raise ValueError(
                f"aligned borders need an acyclic graph; these form a cycle: {cycle.args[1]}"
            ) from None

    def initial(self) -> Iterator[Configuration]:
        """Nothing read or written, every task in epoch 1 with its first value archived under epoch 0."""
        sigma = tuple((((0, task.initial),), (1, task.initial)) for task in self.tasks)
        cursors = tuple((0,) * len(task.streams) for task in self.tasks)
        yield Configuration(sigma, cursors, self.sources, self.failures)

    def steps(self, state: Configuration) -> Iterator[tuple[Label, Configuration]]:
        """S-STEP over the local steps of the tasks that have not failed, then the failure rules."""
        for p, (_, volatile) in enumerate(state.sigma):
            if volatile is not None:
                for rule, actions, task_state in self.task_steps(state, p, *volatile):
                    yield from self._streaming_step(state, p, rule, actions, task_state)
        if state.failures_left:
            for p, (archive, _) in enumerate(state.sigma):
                sigma = _replaced(state.sigma, p, (archive, None))
                after = state._replace(sigma=sigma, failures_left=state.failures_left - 1)
                yield (FAIL_RULE, self.tasks[p].name), after
        if any(volatile is None for _, volatile in state.sigma):
            yield (RECOVER_RULE,), self.recover(state)

    def _streaming_step(
        self, state: Configuration, p: int, rule: str, actions: tuple[Action, ...], task_state: TaskState
    ) -> Iterator[tuple[Label, Configuration]]:
        """S-STEP: labelled as in a trace (definition 6.1), <rule, p, N_p, X>; nothing if X is not defined."""
        task = self.tasks[p]
        cursors = tuple(zip(task.streams, state.cursors[p], strict=True))
        applied = apply_actions(actions, dict(cursors), state.messages)
        if applied is None:
            return
        moved, messages = applied
        yield (
            (rule, task.name, cursors, actions),
            Configuration(
                _replaced(state.sigma, p, task_state),
                _replaced(state.cursors, p, tuple(moved[stream] for stream in task.streams)),
                messages,
                state.failures_left,
            ),
        )

    def task_steps(self, state: Configuration, p: int, epoch: Epoch, value: Value) -> Iterator[LocalStep]:
        """I-EVENT on each input and I-BORDER on all inputs at once.

        Alignment is here: an event is taken only in its own epoch, so that a stream whose next message is
        a border stays blocked until every input has come that far.
        """
        task, (archive, _) = self.tasks[p], state.sigma[p]
        for stream, message_epoch, datum in self.next_messages(state, p):
            if message_epoch == epoch and datum != BORDER:
                yield self.event_step(task, archive, (epoch, value), (stream, message_epoch, datum))
        borders = tuple(("-", stream, epoch, BORDER) for stream in task.inputs)
        yield BORDER_RULE, (*borders, ("+", task.output, epoch, BORDER)), snapshot(archive, epoch, value)

    @staticmethod
    def event_step(
        task: Task, archive: Archive, now: tuple[Epoch, Value], event: tuple[Stream, Epoch, Datum]
    ) -> LocalStep:
        """I-EVENT: consume one event, produce the outputs of f in the epoch of the task."""
        epoch, value = now
        after, outputs = task.f(value, event[2][1])
        produced = tuple(("+", task.output, epoch, ("EV", output)) for output in outputs)
        return EVENT_RULE, (("-", *event), *produced), (archive, (epoch, after))

    def next_messages(self, state: Configuration, p: int) -> list[tuple[Stream, Epoch, Datum]]:
        """The messages that task p may read next on its inputs, at most one per stream if SeqUnique holds."""
        at = dict(zip(self.tasks[p].inputs, state.cursors[p], strict=False))
        return [(s, epoch, datum) for s, n, epoch, datum in state.messages if at.get(s) == n]

    def recover(self, state: Configuration) -> Configuration:
        """F-RECOVER: atomically, every task restarts from the latest common snapshot."""
        return self.lcs(state)

    def gce(self, state: Configuration) -> Epoch:
        """The greatest common epoch: the least over all tasks of the newest epoch in its archive."""
        return min(archive[-1][0] for archive, _ in state.sigma)

    def out(self, state: Configuration) -> tuple[Message, ...]:
        """The output messages: everything on every stream up to the greatest common epoch."""
        gce = self.gce(state)
        return tuple(message for message in state.messages if message[2] <= gce)

    def observe(self, state: Configuration) -> tuple[Message, ...]:
        """The observability function of the theorem, which is out."""
        return self.out(state)

    def lcs(self, state: Configuration) -> Configuration:
        """The latest common snapshot: only what belongs to epochs up to gce has happened."""
        gce = self.gce(state)
        sigma: list[TaskState] = [
            (self.restored_archive(archive, gce), (self.restart_epoch(gce), dict(archive)[gce]))
            for archive, _ in state.sigma
        ]
        return Configuration(
            tuple(sigma), self.restored_cursors(state), self.restored_messages(state), state.failures_left
        )

    def restart_epoch(self, gce: Epoch) -> Epoch:
        """The first epoch that is not committed."""
        return gce + 1

    def restored_archive(self, archive: Archive, gce: Epoch) -> Archive:
        """Snapshots above gce are forgotten, because their epochs run again."""
        return tuple(item for item in archive if item[0] <= gce)

    def restored_cursors(self, state: Configuration) -> tuple[tuple[int, ...], ...]:
        """Every cursor stands after the committed messages of its stream."""
        committed = [stream for stream, *_ in self.out(state)]
        return tuple(tuple(committed.count(stream) for stream in task.streams) for task in self.tasks)

    def restored_messages(self, state: Configuration) -> tuple[Message, ...]:
        """The inputs, and what is committed; the rest is purged, because it is produced again."""
        return message_set(self.sources + self.out(state))


def snapshot(archive: Archive, epoch: Epoch, value: Value) -> TaskState:
    """<a[e -> v], <e + 1, v>>."""
    return tuple(sorted({**dict(archive), epoch: value}.items())), (epoch + 1, value)


def _replaced(entries: tuple[Any, ...], p: int, entry: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any entry
    return (*entries[:p], entry, *entries[p + 1 :])
