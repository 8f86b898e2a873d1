"""Snapshots of cyclic dataflow before the judge: published counts, broken variants, explanations.

Published are 270 configurations for hold-back with one failure, 275 for the window with H saved, and 2,405
for messages sent ahead with L saved. The first two are reached exactly, and they fix the conventions: a
source snapshots by leaving an epoch, a held-back message stays in its inbox, K keeps versions, the window
fires in the step that snapshots its epoch, each of S, V and K may fail, and the number of failures that are
still allowed is part of the state. So every count is 5 times the one without failures: 54 and 55.

The flow of the third is not described, and none was found with 2,405 / 5 = 481 configurations without
failures under the same conventions. Tried, in thousands of combinations: sending ahead to V or to K; from the
first, the last or every round; by records alone or by what was sent ahead too; arriving in round 0 or 1;
going round the loop again or not; one to four records in two or three epochs; hold-back and versions. Ours
has 190, so no count is claimed for it.

Every mutant overrides one method. The failure-free runs against which Explain compares are always those of
the published rules, so a mutant cannot bend its own specification.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from pointstamp_models.catalogue.snapshot_programs import (
    AHEAD,
    AHEAD_VERSIONS,
    LOOP,
    LOOP_OF_TWO,
    LOOP_OF_TWO_VERSIONS,
    ONE_EPOCH,
    OWING,
    OWING_NOTIFIED,
    VERSIONS,
    WINDOW,
    WINDOW_NOTIFIED,
    WINDOW_VERSIONS,
)
from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp_models.exploring.explorer import DEADLOCK, explore
from pointstamp_models.exploring.transparency import (
    Execution,
    every_execution,
    first_unexplained,
    random_executions,
    side_by_side,
)
from pointstamp_models.spec.snapshot_flows import Epoch, Flow, Locations, NodeIndex, Source, Time
from pointstamp_models.spec.snapshot_rules import RECOVER, Configuration, Held, Inbox, Sent
from pointstamp_models.spec.snapshots import EpochSnapshots, Seen

# Broken variants.


class EagerWithoutVersions(EpochSnapshots):
    """M7.1: nodes that cannot tell epochs apart take events of later epochs before their snapshot."""

    def may_execute(self, c: Configuration, v: NodeIndex, time: Time) -> bool:
        """Nothing is held back."""
        return True


class OnlyFirstRoundTested(EpochSnapshots):
    """M7.2: an epoch counts as complete when its first round is, though (e, 1) is not <= (e, 0)."""

    def frontier_passed(self, clock: Locations, v: NodeIndex, epoch: Epoch) -> bool:
        """``not frontier.less_equal((e, 0))``."""
        return not clock & self.flow.location(v, [(epoch, 0)])


class AheadNotSaved(EpochSnapshots):
    """M7.3: messages sent into later epochs are not stored."""

    def saved_ahead(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> tuple[Sent, ...]:
        """L is forgotten."""
        return ()


class HeldNotSaved(EpochSnapshots):
    """M7.4: capabilities held for later epochs, the pending notifications, are not stored."""

    def saved_held(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Held:
        """H is forgotten."""
        return ()


class HeldNowSaved(EpochSnapshots):
    """H is read from what the node holds at the moment of the snapshot, as the published text has it.

    Under hold-back this changes nothing. With versions, a notification of a later epoch that was served
    before the snapshot is lost: its request belongs to the snapshot, its service does not.
    """

    def saved_held(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Held:
        """The capabilities that are still held for later epochs."""
        return tuple((time, made) for time, made in c.held[v] if made <= epoch < time[0])


class ChannelsKept(EpochSnapshots):
    """M7.5: messages in flight survive the recovery."""

    def restored_inboxes(self, c: Configuration, epoch: Epoch) -> tuple[Inbox, ...]:
        """All messages in flight stay in flight."""
        restored = super().restored_inboxes(c, epoch)
        return tuple(old + new for old, new in zip(c.inboxes, restored, strict=True))


class OffsetKept(EpochSnapshots):
    """M7.6: a source continues where it was."""

    def restored_offset(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> int:
        """Nothing is read again."""
        offset: int = c.states[v]
        return offset


class OwedWorkNotCounted(EpochSnapshots):
    """M7.7: what a node still owes does not hold back the frontiers behind it."""

    def capabilities(self, c: Configuration) -> Iterator[tuple[NodeIndex, Time]]:
        """Only those of sources."""
        for v, time in super().capabilities(c):
            if isinstance(self.parts[v], Source):
                yield v, time


class OwnWorkIgnored(EpochSnapshots):
    """M7.7 at the node itself: it snapshots an epoch for which a notification is still pending."""

    def own_work_done(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> bool:
        """Nobody asks."""
        return True


class HeadBlocks(EpochSnapshots):
    """M7.8: hold-back by blocking: what waits behind a held-back message waits too."""

    def deliverable(self, inbox: Inbox) -> list[int]:
        """Only the first message."""
        return [0] if inbox else []


class SinkCommitsAlone(EpochSnapshots):
    """C5 dropped: output is shown when the sink has saved its epoch, without waiting for all others."""

    def observe(self, state: Configuration) -> Seen:
        """The output up to the epoch that the least advanced sink has saved."""
        saved = [len(state.archives[self.flow.index_of[name]]) - 1 for name in self.flow.sinks]
        return self.seen_up_to(state, min(saved))


# Explanations of whole executions.


def _recoveries(model: EpochSnapshots) -> Iterator[Execution[Configuration]]:
    """For every recovery that can happen at all, a shortest execution that ends with it."""
    found = explore(model, properties=[], keep_edges=True)
    for edge in found.edges:
        if edge.label[0] == RECOVER:
            yield [*found.trace_to(edge.origin), (edge.label, found.state(edge.target))]


def _outcome(model: EpochSnapshots, executions: Iterator[Execution[Configuration]]) -> Outcome:
    explained, unexplained = first_unexplained(model, executions, specified=model.specification.observe)
    if unexplained is None:
        return Outcome(True, explained, f"{explained} executions have a failure-free explanation")
    return Outcome(False, explained + 1, side_by_side(model, unexplained))


def explain_every(flow: Flow, failures: int) -> Outcome:
    """Every execution of the flow has a failure-free explanation."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, every_execution(model))


def explain_recoveries(flow: Flow, failures: int) -> Outcome:
    """Every reachable recovery has a failure-free explanation."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, _recoveries(model))


def explain_random(flow: Flow, failures: int, number: int) -> Outcome:
    """Random executions of the flow have failure-free explanations."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, random_executions(model, seed=number, number=number))


def _model(flow: Flow, failures: int) -> partial[EpochSnapshots]:
    return partial(EpochSnapshots, flow, failures=failures)


def _instance(
    name: str, flow: Flow, failures: int, states: int | None = None, transitions: int | None = None
) -> Instance:
    counted = f"{name}, {failures} failure{'s' * (failures != 1)}"
    return Instance(counted, _model(flow, failures), states=states, transitions=transitions, liveness=True)


ENTRY: Final = Entry(
    name="snapshots",
    title="Frontier-triggered epoch snapshots of cyclic dataflow (Abadi & Isard 2015, Veresov et al. 2024)",
    instances=(
        _instance("hold-back", LOOP, 0),
        _instance("hold-back", LOOP, 1, states=270),
        _instance("hold-back", LOOP, 2),
        _instance("versions", VERSIONS, 1),
        _instance("versions", VERSIONS, 2),
        # M7.3', of which another flow is published with 2,405 configurations.
        _instance("sent ahead, L saved", AHEAD, 1),
        _instance("sent ahead, L saved, versions", AHEAD_VERSIONS, 1),
        # M7.4'.
        _instance("window, H saved", WINDOW, 1, states=275),
        _instance("window, H saved, notified apart", WINDOW_NOTIFIED, 1),
        _instance("window, H saved, versions", WINDOW_VERSIONS, 1),
        _instance("output at the end of an epoch", OWING, 1),
        _instance("output at the end of an epoch, notified apart", OWING_NOTIFIED, 1),
        _instance("two sources, two nodes in the loop", LOOP_OF_TWO, 1),
        _instance("two sources, two nodes in the loop, versions", LOOP_OF_TWO_VERSIONS, 0),
    ),
    mutants=(
        Mutant("M7.1", "eager without versions", partial(EagerWithoutVersions, LOOP, failures=0), "Explain"),
        Mutant("M7.2", "only round 0 tested", partial(OnlyFirstRoundTested, LOOP, failures=0), DEADLOCK),
        Mutant(
            "M7.2 with versions",
            "only round 0 tested",
            partial(OnlyFirstRoundTested, VERSIONS, failures=1),
            "Explain",
        ),
        Mutant("M7.3", "L not saved", partial(AheadNotSaved, AHEAD, failures=1), "Explain"),
        Mutant("M7.4", "H not saved", partial(HeldNotSaved, WINDOW, failures=1), "Explain"),
        Mutant(
            "M7.4 under hold-back",
            "H is what is still held",
            partial(HeldNowSaved, WINDOW_NOTIFIED, failures=1),
            None,
            same_as="window, H saved, notified apart, 1 failure",
        ),
        Mutant(
            "M7.4 with versions",
            "H is what is still held",
            partial(HeldNowSaved, WINDOW_VERSIONS, failures=1),
            "Explain",
        ),
        Mutant("M7.5", "channels kept", partial(ChannelsKept, LOOP, failures=1), "Explain"),
        Mutant("M7.6", "input offset not reset", partial(OffsetKept, LOOP, failures=1), "Explain"),
        Mutant("M7.7", "owed work not counted", partial(OwedWorkNotCounted, OWING, failures=0), "CommitOnly"),
        Mutant(
            "M7.7 at the node",
            "own work ignored",
            partial(OwnWorkIgnored, OWING_NOTIFIED, failures=0),
            DEADLOCK,
        ),
        Mutant("M7.8", "head of channel blocks", partial(HeadBlocks, LOOP, failures=0), DEADLOCK),
        Mutant("C5", "sink commits alone", partial(SinkCommitsAlone, LOOP, failures=1), "OutMono"),
    ),
    checks=(
        Check("explained: every execution of one epoch, 1 failure", partial(explain_every, ONE_EPOCH, 1)),
        Check("explained: every recovery, hold-back, 2 failures", partial(explain_recoveries, LOOP, 2)),
        Check("explained: every recovery, versions, 2 failures", partial(explain_recoveries, VERSIONS, 2)),
        Check("explained: every recovery, L saved, 2 failures", partial(explain_recoveries, AHEAD, 2)),
        Check("explained: every recovery, H saved, 2 failures", partial(explain_recoveries, WINDOW, 2)),
        Check(
            "explained: every recovery, H saved, versions, 2 failures",
            partial(explain_recoveries, WINDOW_VERSIONS, 2),
        ),
        Check(
            "explained: random executions, L saved, versions, 3 failures",
            partial(explain_random, AHEAD_VERSIONS, 3, 500),
        ),
    ),
)
