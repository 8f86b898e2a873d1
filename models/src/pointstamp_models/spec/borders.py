"""Stateful dataflow with aligned epoch borders, failures and recovery: what Flink does on an acyclic graph.

The implementation model of Veresov et al. 2024, section 6: what holds of the rules of
``pointstamp_models.spec.border_rules`` in every configuration and at every step, and that every input epoch
is finally visible (theorem 6.10). *Explain* is failure transparency (theorem 6.9) as far as single
configurations show it: what is visible is also visible in some run of the same program without failures.

That whole executions are explained is not judged here: ``pointstamp_models.exploring.transparency`` builds
the explanations, and the last methods of the model answer its questions.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar

from pointstamp_models.spec.border_rules import (
    BORDER_RULE,
    FAIL_RULE,
    RECOVER_RULE,
    BorderRules,
    Configuration,
)
from pointstamp_models.spec.model import Invariant, Label, LeadsTo, StepProperty
from pointstamp_models.spec.streaming import BORDER, Datum, Epoch, Message, by_stream, messages_of


class AlignedBorders(BorderRules):
    """The rules with their properties, by the names of the published model."""

    name: ClassVar[str] = "borders"

    def invariants(self) -> Mapping[str, Invariant[Configuration]]:
        """The properties of every reachable configuration."""
        return {
            "ArchContig": self.archives_are_contiguous,
            "SeqUnique": self.numbers_are_unique,
            "EpochPrefix": self.epochs_are_prefixes,
            "Cursor": self.cursors_fit_their_streams,
            "GceBehind": self.gce_is_behind,
            "M0Kept": lambda c: set(self.sources) <= set(c.messages),
            "LcsSelf": self.lcs_keeps_itself,
            "Explain": lambda c: self.observe(c) in self.failure_free_outs,
        }

    def step_properties(self) -> Mapping[str, StepProperty[Configuration]]:
        """The properties of every reachable step; LcsExplained is lemma B.10-11 for F-RECOVER."""
        return {
            "GceMono": lambda c, label, d: self.gce(c) <= self.gce(d),
            "OutMono": lambda c, label, d: set(self.observe(c)) <= set(self.observe(d)),
            "CommitOnly": self.only_a_committing_border_changes_out,
            "LcsExplained": lambda c, label, d: (
                label[0] != RECOVER_RULE or self.without_failures(d) in self.failure_free_steps
            ),
        }

    def archives_are_contiguous(self, c: Configuration) -> bool:
        """ArchContig: dom(a_p) = {0..k}, and k = e - 1 for a task in epoch e."""
        return all(
            [epoch for epoch, _ in archive] == list(range(len(archive)))
            and (volatile is None or volatile[0] == len(archive))
            for archive, volatile in c.sigma
        )

    def numbers_are_unique(self, c: Configuration) -> bool:
        """SeqUnique: each stream is numbered 0, 1, 2, ... and no two messages share a number."""
        return all([n for _, n, _, _ in on] == list(range(len(on))) for on in by_stream(c.messages).values())

    def epochs_are_prefixes(self, c: Configuration) -> bool:
        """EpochPrefix: a stream starts in epoch 1 and enters the next one exactly after a border."""
        for on in by_stream(c.messages).values():
            epochs = [1, *(epoch + (datum == BORDER) for _, _, epoch, datum in on)]
            if any(message[2] != epoch for epoch, message in zip(epochs, on, strict=False)):
                return False
        return True

    def cursors_fit_their_streams(self, c: Configuration) -> bool:
        """Cursor: a producer stands at the end of its stream, a consumer not beyond it."""
        streams = by_stream(c.messages)
        for task, cursors in zip(self.tasks, c.cursors, strict=True):
            lengths = [len(streams.get(stream, ())) for stream in task.streams]
            if cursors[-1] != lengths[-1] or any(n > m for n, m in zip(cursors, lengths, strict=True)):
                return False
        return True

    def gce_is_behind(self, c: Configuration) -> bool:
        """GceBehind: a running task works in an epoch above gce, so that I-EVENT never changes out."""
        gce = self.gce(c)
        return all(volatile is None or gce < volatile[0] for _, volatile in c.sigma)

    def lcs_keeps_itself(self, c: Configuration) -> bool:
        """LcsSelf: the latest common snapshot has the gce and the out of c, and is its own snapshot."""
        lcs = self.lcs(c)
        return self.gce(lcs) == self.gce(c) and self.out(lcs) == self.out(c) and self.lcs(lcs) == lcs

    def only_a_committing_border_changes_out(self, c: Configuration, label: Label, d: Configuration) -> bool:
        """CommitOnly: lemma B.6."""
        return self.observe(c) == self.observe(d) or (label[0] == BORDER_RULE and self.gce(c) < self.gce(d))

    def witnesses(self) -> Mapping[str, Invariant[Configuration]]:
        """Every epoch can be committed, and with failures a task can be failed after a commit."""
        found: dict[str, Invariant[Configuration]] = {"AllCommitted": self.all_committed}
        if self.failures:
            found["FailedAfterCommit"] = lambda c: self.gce(c) > 0 and any(sv is None for _, sv in c.sigma)
        return found

    def step_witnesses(self) -> Mapping[str, StepProperty[Configuration]]:
        """A recovery can undo work, and one can keep committed work."""
        if not self.failures:
            return {}
        return {
            "RecoveryUndoes": lambda c, label, d: label[0] == RECOVER_RULE and c.messages != d.messages,
            "RecoveryKeeps": lambda c, label, d: label[0] == RECOVER_RULE and bool(self.out(d)),
        }

    def may_stop(self, state: Configuration) -> bool:
        """Return whether every task has read all its inputs; to stop before is a deadlock."""
        lengths = {stream: len(on) for stream, on in by_stream(state.messages).items()}
        return all(
            n == lengths.get(stream, 0)
            for task, cursors in zip(self.tasks, state.cursors, strict=True)
            for stream, n in zip(task.inputs, cursors, strict=False)
        )

    def fairness(self) -> Mapping[str, Callable[[Configuration, Label], bool]]:
        """Each task's processing and F-RECOVER; never F-FAIL, which nothing forces to happen."""

        def steps_of(name: str) -> Callable[[Configuration, Label], bool]:
            return lambda c, label: label[0] != FAIL_RULE and label[1:2] == (name,)

        fair = {f"steps of {task.name}": steps_of(task.name) for task in self.tasks}
        return {**fair, RECOVER_RULE: lambda c, label: label[0] == RECOVER_RULE}

    def liveness(self) -> Mapping[str, LeadsTo[Configuration]]:
        """Theorem 6.10: every input epoch appears in out; out holds the inputs, so exactly when gce >= e."""
        return {"Liveness": LeadsTo(lambda c: True, self.all_committed)}

    def all_committed(self, c: Configuration) -> bool:
        """Return whether every input epoch is visible."""
        return self.gce(c) >= self.epochs

    @cached_property
    def specification(self) -> BorderRules:
        """The same program without failures, under the published rules even if this is a broken variant."""
        return BorderRules(self.tasks, self.inputs, failures=0)

    @cached_property
    def failure_free_steps(self) -> Mapping[Configuration, Mapping[Label, Configuration]]:
        """Every configuration that a run without failures reaches, and every step it may take there."""
        waiting = list(self.specification.initial())
        taken: dict[Configuration, dict[Label, Configuration]] = {}
        while waiting:
            c = waiting.pop()
            if c not in taken:
                taken[c] = dict(self.specification.steps(c))
                waiting.extend(taken[c].values())
        return taken

    @cached_property
    def failure_free_outs(self) -> frozenset[tuple[Message, ...]]:
        """Every out that a run without failures shows."""
        return frozenset(self.specification.out(c) for c in self.failure_free_steps)

    def is_recovery(self, label: Label) -> bool:
        """Return whether the step is F-RECOVER."""
        return bool(label[0] == RECOVER_RULE)

    def epoch_of(self, label: Label, before: Configuration) -> Epoch | None:
        """The epoch of what the step consumes; None for the failure rules."""
        return label[3][0][2] if label[0] not in (FAIL_RULE, RECOVER_RULE) else None

    def without_failures(self, state: Configuration) -> Configuration:
        """The configuration alone, without the count of failures that are still allowed."""
        return state._replace(failures_left=0)

    def replay(self, state: Configuration, label: Label) -> Configuration | None:
        """The step with this rule, task, N_p and X under the failure-free rules, if it is enabled."""
        return self.failure_free_steps.get(state, {}).get(label)

    def processor_of(self, label: Label) -> str | None:
        """The task that takes the step; None for F-RECOVER, which all take together."""
        return label[1] if len(label) > 1 else None

    def messages_of(self, label: Label) -> tuple[list[Message], list[Message]]:
        """The messages that the step consumes and produces."""
        return messages_of(label[3], dict(label[2])) if len(label) > 3 else ([], [])

    def describe_label(self, label: Label) -> str:
        """``I-EVENT(average): -ints<1, 3> +avgs<1, 3>``."""
        if len(label) < 4:
            return super().describe_label(label)
        actions = [f"{sign}{stream}{_show(epoch, datum)}" for sign, stream, epoch, datum in label[3]]
        return f"{label[0]}({label[1]}): {' '.join(actions)}"

    def describe_state(self, state: Configuration) -> str:
        """The state and the output of each task; the sources never change and are omitted."""
        parts = [f"gce = {self.gce(state)}"]
        streams = by_stream(state.messages)
        for task, (archive, volatile) in zip(self.tasks, state.sigma, strict=True):
            written = " ".join(f"{n}{_show(e, d)}" for _, n, e, d in streams.get(task.output, ()))
            now = "fl" if volatile is None else f"<{volatile[0]}, {volatile[1]}>"
            parts.append(f"{task.name} = {now} archive {dict(archive)}  {task.output} = {written or 'empty'}")
        return "  ".join(parts)


def _show(epoch: Epoch, datum: Datum) -> str:
    return f"<{epoch}, {datum[-1]}>"
