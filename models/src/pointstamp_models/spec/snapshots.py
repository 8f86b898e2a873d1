"""Snapshots of cyclic dataflow, taken when frontiers pass an epoch, with failures and recovery.

This joins timely dataflow (Abadi & Isard 2015) to the failure transparency of Veresov et al. 2024, which is
about acyclic graphs: there a border in the stream says that an epoch is complete, and on a cycle no border
comes round. Here the frontier says it, out of band. The rules are in
``pointstamp_models.spec.snapshot_rules``; this file says what must hold of them, in every configuration
(*Explain*, *ConsistentCut*), at every step, and finally.

*ConsistentCut* is the heart: what is restored for a committed epoch is a configuration of a run without
failures, the one that performs exactly the events of epochs up to it. *Explain* is failure transparency as
far as single configurations show it. That whole executions are explained is judged by
``pointstamp_models.exploring.transparency``, whose questions the last methods answer.

The oracle Clock stands for the frontiers of a progress tracker, which are never ahead of it; the tracker
itself is another model.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

from pointstamp_models.spec.model import Invariant, Label, LeadsTo, StepProperty
from pointstamp_models.spec.snapshot_flows import Effects, Epoch, Node, NodeIndex, Value
from pointstamp_models.spec.snapshot_rules import (
    ADVANCE,
    EMIT,
    FAIL,
    NOTIFY,
    RECOVER,
    SNAP,
    TAKE,
    Configuration,
    SnapshotRules,
)

EVENTS: Final = (EMIT, ADVANCE, TAKE, NOTIFY)
"""The steps that happen at a time, which stands third in the label."""

Seen: TypeAlias = tuple[Epoch, tuple[tuple[Epoch, str, Value], ...]]
"""The newest committed epoch, and the output up to it: (epoch, sink, value)."""


class EpochSnapshots(SnapshotRules):
    """The rules with their properties."""

    def invariants(self) -> Mapping[str, Invariant[Configuration]]:
        """The properties of every reachable configuration."""
        return {
            "Explain": lambda c: self.observe(c) in self.failure_free_outputs,
            "ConsistentCut": self.committed_epochs_are_consistent_cuts,
        }

    def step_properties(self) -> Mapping[str, StepProperty[Configuration]]:
        """The properties of every reachable step."""
        return {
            "GceMono": lambda c, label, d: self.gce(c) <= self.gce(d),
            "OutMono": lambda c, label, d: is_prefix(self.observe(c)[1], self.observe(d)[1]),
            "CommitOnly": self.only_a_commit_changes_the_output,
            "FrontierSound": lambda c, label, d: label[0] == RECOVER or not self.clock(d) & ~self.clock(c),
            "NothingLate": self.nothing_is_late,
            "NonInterference": self.later_epochs_do_not_interfere,
            "EpochNeverLowered": self.no_epoch_is_lowered,
        }

    def committed_epochs_are_consistent_cuts(self, c: Configuration) -> bool:
        """T1: for every committed epoch, restoring it yields a configuration of a failure-free run."""
        return all(
            self.without_failures(self.restore(c, epoch)) in self.failure_free_configurations
            for epoch in range(self.gce(c) + 1)
        )

    def only_a_commit_changes_the_output(self, c: Configuration, label: Label, d: Configuration) -> bool:
        """Output of a committed epoch is never added to, so what is seen changes only when gce does."""
        return self.observe(c) == self.observe(d) or (
            label[0] in (SNAP, ADVANCE) and self.gce(c) < self.gce(d)
        )

    def nothing_is_late(self, c: Configuration, label: Label, d: Configuration) -> bool:
        """L2: after its snapshot of e, a source or node has no event of an epoch <= e."""
        if label[0] not in EVENTS:
            return True
        return bool(label[2][0] >= len(c.archives[self.flow.index_of[label[1]]]))

    def later_epochs_do_not_interfere(self, c: Configuration, label: Label, d: Configuration) -> bool:
        """C2: an event either waits for the snapshots before it (D1), or respects every projection (D1')."""
        if label[0] not in (TAKE, NOTIFY):
            return True
        v, epoch = self.flow.index_of[label[1]], label[2][0]
        part = self.parts[v]
        assert isinstance(part, Node), "only nodes take messages and notifications"
        if part.project is None:
            return bool(epoch <= len(c.archives[v]))
        before, after, pi = c.states[v], d.states[v], part.project
        alone = self._effects(part, pi(before, epoch), label)
        return (
            # NI1: what belongs to earlier epochs is untouched.
            all(pi(before, e) == pi(after, e) for e in range(epoch))
            # NI2: what the event makes of its own epoch, and what it sends, needs no more than that epoch.
            and pi(after, epoch) == pi(alone.state, epoch)
            and self._effects(part, before, label)[1:] == alone[1:]
        )

    @staticmethod
    def _effects(node: Node, state: Value, label: Label) -> Effects:
        if label[0] == TAKE:
            return node.on_message(state, label[2], label[3])
        assert node.on_notify is not None, f"{node.name} was notified but does not know of notifications"
        return node.on_notify(state, label[2])

    def no_epoch_is_lowered(self, c: Configuration, label: Label, d: Configuration) -> bool:
        """C4: everything an event creates, messages and capabilities, has its epoch or a later one."""
        epoch = self.epoch_of(label, c)
        if epoch is None:
            return True
        made = {
            time for before, after in zip(c.held, d.held, strict=True) for time, _ in {*after} - {*before}
        }
        for before, after in zip(c.inboxes, d.inboxes, strict=True):
            made |= {time for time, _ in Counter(after) - Counter(before)}
        return all(time[0] >= epoch for time in made)

    def witnesses(self) -> Mapping[str, Invariant[Configuration]]:
        """Every epoch can be committed; a loop turns; a cut can be half taken; what flows promise is done."""
        found: dict[str, Invariant[Configuration]] = {
            "AllCommitted": self.all_committed,
            "HalfTakenCut": lambda c: len({len(archive) for archive in c.archives}) > 1,
        }
        if any(edge.rounds for edge in self.flow.edges):
            found["InTheLoop"] = lambda c: any(time[1] for inbox in c.inboxes for time, _ in inbox)
        if any(not self.has_versions(self.flow.index_of[node.name]) for node in self.flow.nodes):
            found["HeldBack"] = self.holds_back
        if any(edge.epochs for edge in self.flow.edges):
            found["SavedAhead"] = lambda c: any(sent for a in c.archives for _, _, sent in a)
        if self.failures:
            found["FailedAfterCommit"] = lambda c: self.gce(c) > 0 and bool(c.failed)
        return found

    def holds_back(self, c: Configuration) -> bool:
        """Return whether a message waits for a snapshot of its receiver, which has no versions."""
        return any(
            time[0] > len(c.archives[v]) and not self.has_versions(v)
            for v, inbox in enumerate(c.inboxes)
            for time, _ in inbox
        )

    def step_witnesses(self) -> Mapping[str, StepProperty[Configuration]]:
        """Versions are used; a recovery can undo work, and one can keep committed work."""
        found: dict[str, StepProperty[Configuration]] = {}
        if any(node.project for node in self.flow.nodes):
            found["AheadOfSnapshot"] = lambda c, label, d: (
                label[0] == TAKE and label[2][0] > len(c.archives[self.flow.index_of[label[1]]])
            )
        if self.failures:
            found["RecoveryUndoes"] = lambda c, label, d: label[0] == RECOVER and c.states != d.states
            found["RecoveryKeeps"] = lambda c, label, d: label[0] == RECOVER and self.gce(d) > 0
        return found

    def may_stop(self, state: Configuration) -> bool:
        """To stop before every epoch is committed is a deadlock."""
        return self.all_committed(state)

    def fairness(self) -> Mapping[str, Callable[[Configuration, Label], bool]]:
        """The steps of each source and node, and RECOVER; never FAIL, which nothing forces to happen."""

        def steps_of(name: str) -> Callable[[Configuration, Label], bool]:
            return lambda c, label: label[0] not in (FAIL, RECOVER) and label[1] == name

        fair = {f"steps of {part.name}": steps_of(part.name) for part in self.parts}
        return {**fair, RECOVER: lambda c, label: label[0] == RECOVER}

    def liveness(self) -> Mapping[str, LeadsTo[Configuration]]:
        """Eventually gce >= e, for every epoch e of the input."""

        def committed(epoch: Epoch) -> Callable[[Configuration], bool]:
            return lambda c: self.gce(c) >= epoch

        return {
            f"Liveness of epoch {epoch}": LeadsTo(lambda c: True, committed(epoch))
            for epoch in range(1, self.flow.epochs_max + 1)
        }

    def all_committed(self, c: Configuration) -> bool:
        """Return whether every epoch is visible."""
        return self.gce(c) >= self.flow.epochs_max

    # Failure-free runs, and what an explainer of executions asks.

    @cached_property
    def specification(self) -> "EpochSnapshots":
        """The same flow without failures: always under the published rules, also for a mutant."""
        return EpochSnapshots(self.flow, failures=0)

    @cached_property
    def failure_free_configurations(self) -> frozenset[Configuration]:
        """Every configuration that a run without failures reaches."""
        waiting = list(self.specification.initial())
        reached = set(waiting)
        while waiting:
            new = {after for _, after in self.specification.steps(waiting.pop())} - reached
            reached |= new
            waiting.extend(new)
        return frozenset(reached)

    @cached_property
    def failure_free_outputs(self) -> frozenset[Seen]:
        """All observations of a run without failures."""
        return frozenset(self.specification.observe(c) for c in self.failure_free_configurations)

    def observe(self, state: Configuration) -> Seen:
        """The observation: the last committed epoch, and the output of committed epochs."""
        return self.seen_up_to(state, self.gce(state))

    def seen_up_to(self, state: Configuration, last: Epoch) -> Seen:
        """The output records of epochs up to the last one, epoch by epoch.

        The epoch is seen with them, so that committing an epoch before its output came is seen too.
        """
        records = [
            (epoch, name, value)
            for name in self.flow.sinks
            for epoch, value in state.states[self.flow.index_of[name]]
            if epoch <= last
        ]
        return last, tuple(sorted(records, key=lambda record: record[:2]))

    def is_recovery(self, label: Label) -> bool:
        """Return whether the step is RECOVER."""
        return bool(label[0] == RECOVER)

    def epoch_of(self, label: Label, before: Configuration) -> Epoch | None:
        """The epoch of the event or of the snapshot; None for failures and recoveries."""
        if label[0] == SNAP:
            return int(label[2])
        return int(label[2][0]) if label[0] in EVENTS else None

    def without_failures(self, state: Configuration) -> Configuration:
        """The configuration alone, without the count of failures that are still allowed."""
        return state._replace(failures_left=0)

    def replay(self, state: Configuration, label: Label) -> Configuration | None:
        """The step with this label under the failure-free rules, if it is enabled."""
        return next((after for step, after in self.specification.steps(state) if step == label), None)

    def describe_state(self, state: Configuration) -> str:
        """For each source and node its state, what it holds, what waits for it, and how far it is saved."""
        shown = [f"gce = {self.gce(state)}"]
        for v, part in enumerate(self.parts):
            shown.append(f"{part.name}{' failed' * (v in state.failed)} = {self._describe_part(state, v)}")
        return "  ".join(shown)

    @staticmethod
    def _describe_part(state: Configuration, v: NodeIndex) -> str:
        shown = [str(state.states[v]), f"saved to {len(state.archives[v]) - 1}"]
        if state.held[v]:
            shown.append("holds " + ", ".join(str(time) for time, _ in state.held[v]))
        if state.inboxes[v]:
            shown.append("awaits " + ", ".join(f"{value} at {time}" for time, value in state.inboxes[v]))
        return "; ".join(shown)


def is_prefix(shorter: tuple[Value, ...], longer: tuple[Value, ...]) -> bool:
    """Return whether what was there first is still there first."""
    return longer[: len(shorter)] == shorter
