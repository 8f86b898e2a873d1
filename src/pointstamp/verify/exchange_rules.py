"""The rules of the exchange protocol for a trace.

The actions of Brun et al. (2021), section 4: recv_cap for a pulled message, perf_op for an activation,
send_upd and recv_upd for a batch of progress. Guards look at what a worker owns before the action; what an
activation pulled it owns already. Capabilities minted and dropped in one activation are netted first.
"""

from collections import Counter
from collections.abc import Iterable

from pointstamp.verify.abstract_state import TOP, Counts, Rules, add, broken, summed
from pointstamp.verify.shape import Walker
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Counted,
    MessagePulled,
    MessageSent,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SumReceived,
    WorkerStarted,
)


class ExchangeRules(Rules):
    """One method for each event of the exchange protocol: check it, then let it happen."""

    def worker_started(self, event: WorkerStarted) -> None:
        """The first capabilities of all workers exist from the beginning, before any worker starts."""
        if event.workers != self.state.workers:
            raise ValueError(f"expected an event of {self.state.workers} workers, got one of {event.workers}")

    # Messages and activations.

    def message_pulled(self, event: MessagePulled) -> None:
        """recv_cap: the message was in flight to this worker."""
        w, point = event.worker, self.walker.point(event.location, event.time)
        if self.state.data[w].get(point, 0) < 1:
            broken(
                "RecvCapEnabled", f"worker {w} pulled {self.describe(point)}, but none was in flight to it"
            )
        self.state.recv_cap(w, point)

    def message_sent(self, event: MessageSent) -> None:
        """A part of a perf_op, judged when the activation ends."""
        source = self.walker.point(event.source, event.source_time)
        target = self.walker.point(event.target, event.time)
        self.state.activations[event.worker].sent.append((source, target, event.receiver))

    def capability_changed(self, event: CapabilityChanged) -> None:
        """A part of a perf_op, judged when the activation ends."""
        point = self.walker.point(event.location, event.time)
        add(self.state.activations[event.worker].held, point, event.diff)

    def activation_ended(self, event: ActivationEnded) -> None:
        """perf_op: its guards, and all of its changes are reported together."""
        w = event.worker
        self._check_capabilities(w)
        self._check_messages(w)
        reported = summed(self.walker, event.changes)
        self._check_reported(w, reported)
        self.state.perf_op(w, reported)
        for point in reported:
            self.check_exists_safely(point, range(self.state.workers))
        self._check_temp(w)

    def _check_capabilities(self, w: int) -> None:
        owned, done = self.state.caps[w], self.state.activations[w]
        for point, count in done.held.items():
            have = owned.get(point, 0) - done.pulled.get(point, 0)
            if have + count < 0:
                broken(
                    "DnegOwned", f"worker {w} dropped {-count} of {self.describe(point)}, but owned {have}"
                )
            if count > 0 and point not in owned and not self.walker.less_any(owned, point):
                broken("DselfAbove", f"worker {w} minted {self.describe(point)}, but owned nothing before it")

    def _check_messages(self, w: int) -> None:
        owned = self.state.caps[w]
        for source, target, _ in self.state.activations[w].sent:
            # What lies above the source lies above what covers the source: the guard holds for the target.
            if source not in owned and not self.walker.less_any(owned, source):
                broken(
                    "DdataAbove",
                    f"worker {w} sent {self.describe(target)} from {self.describe(source)}, but owned "
                    "nothing before it",
                )
            if not self.walker.less(source, target):
                broken(
                    "ArrivesLater",
                    f"worker {w} sent from {self.describe(source)} what cannot arrive as "
                    f"{self.describe(target)}",
                )

    def _check_reported(self, w: int, reported: Counts) -> None:
        """The reported changes of an activation are its changes to rec: all of them together."""
        done = self.state.activations[w]
        truly = dict(done.held)
        for point, count in done.pulled.items():
            add(truly, point, -count)
        for _, point, _ in done.sent:
            add(truly, point, 1)
        if truly != reported:
            point = next(p for p in sorted({*truly, *reported}) if truly.get(p, 0) != reported.get(p, 0))
            broken(
                "RecordCount",
                f"worker {w} changed {self.describe(point)} by {truly.get(point, 0):+}, but reported "
                f"{reported.get(point, 0):+}",
            )

    def _check_temp(self, w: int) -> None:
        owned, untold = self.state.caps[w], self.state.temp[w]
        if untold and not is_justified(self.walker, owned, untold):
            broken(
                "TempJustified",
                f"worker {w} has unsent changes {self.show(untold)}, which its capabilities do not justify: "
                f"{self.show(owned) or 'nothing'}",
            )

    # The broadcast of progress.

    def progress_sent(self, event: ProgressSent) -> None:
        """send_upd: the batch is part of the unsent changes, and the remaining ones are justified."""
        w = event.worker
        untold, sent = self.state.temp[w], len(self.state.sent[w])
        if event.sequence != sent:
            broken("GaplessSequence", f"worker {w} sent progress batch {event.sequence} after {sent} batches")
        batch = summed(self.walker, event.changes)
        for point, count in batch.items():
            if untold.get(point, 0) != count:
                broken(
                    "SendUpdEnabled",
                    f"worker {w} sent {count:+} of {self.describe(point)}, but had {untold.get(point, 0):+} "
                    "unsent",
                )
        self.state.send_upd(w, batch)
        self._check_temp(w)

    def progress_received(self, event: ProgressReceived) -> None:
        """recv_upd: the oldest unreceived batch, allowed by the frontiers, counted exactly."""
        state, q, w = self.state, event.worker, event.sender
        heard, sent = state.heard[q][w], len(state.sent[w])
        if event.sequence != heard or heard >= sent:
            broken(
                "GaplessSequence",
                f"worker {q} applied progress batch {event.sequence} of worker {w} after {heard} of the "
                f"{sent} that it has sent",
            )
        self._check_counted(q, self._heard(q, w), event.counts)

    def _heard(self, q: int, w: int) -> Counts:
        """recv_upd of the next batch of w at q."""
        batch = self.state.recv_upd(w, q)
        for point in batch:
            if not self.expects(q, point):
                broken(
                    "CMEnabled",
                    f"worker {q} received a change of worker {w} at {self.describe(point)}, which its "
                    "frontier has passed",
                )
        return batch

    def _check_counted(self, q: int, heard: Counts, counts: Iterable[Counted]) -> None:
        counted = {self.walker.point(at, time): count for at, time, count in counts}
        for point in {**heard, **counted}:
            told = self.state.glob[q].get(point, 0)
            if counted.get(point) != told:
                broken(
                    "PtsEqGlob",
                    f"worker {q} counts {counted.get(point)} of {self.describe(point)}, but received {told}",
                )

    # The broadcast along a tree: sums of whole batches, each an order of recv_upd.

    def progress_summed(self, event: ProgressSummed) -> None:
        """A root sums the next batches of workers, the top the next sums of roots: not an action."""
        state, root = self.state, event.worker
        if event.sequence != state.sums_made(root):
            broken(
                "GaplessSequence",
                f"root {root} made sum {event.sequence} after {state.sums_made(root)} sums",
            )
        parts: list[tuple[int, int]] = []
        batches: Counter[int] = Counter()
        for other, number in event.sums:
            self._check_next(root, other, number, state.sums_taken[other], state.sums_made(other))
            parts.extend(state.sum_taken(other))
        for w, number in event.batches:
            self._check_next(root, w, number, state.summed[w] + batches[w], len(state.sent[w]))
            batches[w] += 1
            parts.append((w, number))
        state.sum_made(root, tuple(parts), batches)

    def sum_received(self, event: SumReceived) -> None:
        """One recv_upd after another, of all batches in the next sum; then the counts are exact."""
        state, q = self.state, event.worker
        self._check_next(q, TOP, event.sequence, state.sums_heard[q], state.sums_made(TOP))
        heard: Counts = {}
        for w, number in state.sum_heard(q):
            self._check_next(q, w, number, state.heard[q][w], len(state.sent[w]))
            for point, count in self._heard(q, w).items():
                add(heard, point, count)
        self._check_counted(q, heard, event.counts)

    def _check_next(self, q: int, w: int, number: int, before: int, sent: int) -> None:
        if number != before or before >= sent:
            broken(
                "GaplessSequence",
                f"worker {q} took progress batch {number} of worker {w} after {before} of the {sent} that it "
                "has sent",
            )

    # The whole.

    def check_record_count(self) -> None:
        """RecordCount: for every view, rec = glob + in flight + not sent yet."""
        state = self.state
        rec = _total(*state.caps, *state.data)
        if rec != state.all_rec():
            broken("RecordCount", "what is owned and carried is not what truly exists")
        for q in range(state.workers):
            known = _total(state.glob[q], state.unheard(q), *state.temp)
            if known != rec:
                wrong = _total(known, {point: -count for point, count in rec.items()})
                broken("RecordCount", f"worker {q} will miscount forever by {self.show(wrong)}")


def is_justified(walker: Walker, owned: Counts, untold: Counts) -> bool:
    """The same as ``pointstamp_models.spec.multiset.justified``, for counts that change, none below 0."""
    less_any = walker.less_any
    gone = [point for point, count in untold.items() if count < 0]
    return all(
        count < owned.get(point, 0) or less_any(gone, point) or less_any(owned, point)
        for point, count in untold.items()
        if count > 0
    )


def _total(*parts: Counts) -> Counts:
    total: Counts = {}
    for part in parts:
        for point, count in part.items():
            add(total, point, count)
    return total
