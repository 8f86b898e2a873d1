"""The clocks protocol before the judge: its published instances, and variants with one change each.

The published counts are of plain states with two workers, an operation consuming at most one record; a
step is counted once for each label, and an operation whose change is zero is not a step. The V order (a < b,
a < c) is there because a chain hides mistakes about incomparable points.

On a finite order the protocol ends by itself, so no run here continues forever: liveness can fail only by
stopping early, and cannot tell fairness of send_upd(w) from fairness of send_upd(w, P containing p). The
exchange protocol has an instance that can.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.spec.broadcasting import Broadcasting, PointOrder, Queue, WorkerIndex
from pointstamp_models.spec.clocks import Clocks, ClocksState
from pointstamp_models.spec.model import Label
from pointstamp_models.spec.multiset import EMPTY, ZM, Point, StrictOrder, chain, plus, vee

A: Final[ZM] = ((0, 1),)
AA: Final[ZM] = ((0, 2),)


class AddsConsumed(Clocks):
    """M1.1: the change of an operation is produced plus consumed, as printed in the paper."""

    def change(self, consumed: ZM, produced: ZM) -> ZM:
        """Produced plus consumed."""
        return plus(produced, consumed)


class HoldsBackAnything(Clocks):
    """M1.2: send_upd does not look at what is kept."""

    def may_hold_back(self, state: ClocksState, w: WorkerIndex, rest: ZM) -> bool:
        """Always."""
        return True


class PerformsAnything(Clocks):
    """M1.3: perf_op does not ask that its change be upright."""

    def may_perform(self, change: ZM) -> bool:
        """Always."""
        return True


class DeliversInAnyOrder(Clocks):
    """M1.4: any queued message may be received next."""

    def deliverable(self, queue: Queue) -> Iterable[int]:
        """All of them."""
        return range(len(queue))


class ConsumesByView(Clocks):
    """M1.5: a worker consumes what its view shows, not what is truly there."""

    def consumable(self, state: ClocksState, w: WorkerIndex) -> ZM:
        """The view of w."""
        return state.glob[w]


class SkipsSender(Clocks):
    """M1.6: a broadcast goes to the others only."""

    def recipients(self, w: WorkerIndex) -> Iterable[WorkerIndex]:
        """Everybody but w."""
        return [q for q in self.workers if q != w]


class DeliversAgain(Clocks):
    """M1.7: a received message stays in its queue."""

    def after_delivery(self, queue: Queue, index: int) -> Queue:
        """The whole queue."""
        return queue


class ReflexiveOrder:
    """A strict order made reflexive, which a strict order must not be."""

    def __init__(self, order: PointOrder) -> None:
        self.order = order

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether lower <= upper."""
        return lower == upper or self.order.less(lower, upper)


class SupportsReflexively(Clocks):
    """E1.1, the equivalent variant: support is looked for at or below a point, not strictly below.

    The point itself has a positive count, so it is never its own negative witness.
    """

    def support_order(self) -> StrictOrder:
        """At or below."""
        return ReflexiveOrder(self.order)


class NeverTrustedToSend(Clocks):
    """F1.1: no promise that a worker ever sends what it keeps."""

    def send_fairness(self) -> Mapping[str, Callable[[ClocksState, Label], bool]]:
        """None."""
        return {}


class NeverTrustedToReceive(Clocks):
    """F1.2: no promise that a worker ever receives what is queued."""

    def recv_fairness(self) -> Mapping[str, Callable[[ClocksState, Label], bool]]:
        """None."""
        return {}


def safe_along_every_path(build: Callable[[], Broadcasting[Any]]) -> Outcome:
    """Safe, on whole runs: once a view is vacant up to p, the true occupancy is, then and ever after.

    The papers derive this from Inv1 and Safe2. Here it is looked at directly: go back along the steps from
    every state whose occupancy is not vacant up to p; no view may be vacant up to p on that way.
    """
    found = explore(build(), properties=[], keep_edges=True)
    model: Broadcasting[Any] = build()
    origins: list[list[int]] = [[] for _ in range(found.states)]
    for edge in found.edges:
        origins[edge.target].append(edge.origin)
    states = [found.state(index) for index in range(found.states)]
    for point in model.points:
        waiting = [i for i, state in enumerate(states) if point not in model.vacancies(model.rec(state))]
        seen = set(waiting)
        while waiting:
            index = waiting.pop()
            if any(point in model.vacancies(view) for view in model.network(states[index]).glob):
                name = model.order.names[point]
                seen_state = model.describe_state(states[index])
                return Outcome(False, found.states, f"vacant up to {name} too early: {seen_state}")
            fresh = [origin for origin in origins[index] if origin not in seen]
            seen.update(fresh)
            waiting += fresh
    return Outcome(True, found.states, "a view that shows vacancy is right, then and ever after")


_TWO_POINTS: Final = "chain a<b, rec {a:1}"

ENTRY: Final[Entry] = Entry(
    name="clocks",
    title="Clocks protocol (Abadi et al. 2013)",
    instances=(
        Instance(_TWO_POINTS, partial(Clocks, chain("ab"), A), 323, 798, liveness=True),
        Instance("chain a<b, rec {a:2}", partial(Clocks, chain("ab"), AA), 38_326, 144_826),
        Instance(
            "chain a<b, rec {a:1}, 3 workers",
            partial(Clocks, chain("ab"), A, workers=3),
            2_967,
            10_179,
            liveness=True,
        ),
        Instance("V order, rec {a:1}", partial(Clocks, vee(), A), liveness=True),
        Instance("V order, rec {a:1}, produce 2", partial(Clocks, vee(), A, produced_max=2)),
        Instance(
            "chain a<b<c, rec {a:1}, produce 2",
            partial(Clocks, chain("abc"), A, produced_max=2),
            limit=740_000,
            long=True,
        ),
    ),
    mutants=(
        Mutant("M1.1", "delta = r + c", partial(AddsConsumed, chain("ab"), A), "AllVacant"),
        Mutant(
            "M1.2",
            "no upright test on the remainder in send_upd",
            partial(HoldsBackAnything, chain("ab"), A),
            "Inv1",
        ),
        Mutant("M1.3", "no upright test in perf_op", partial(PerformsAnything, chain("ab"), EMPTY), "Safe2"),
        Mutant("M1.4", "receive any queued message", partial(DeliversInAnyOrder, chain("ab"), A), "Inv1"),
        Mutant("M1.5", "c bounded by glob[w], not rec", partial(ConsumesByView, chain("ab"), A), "RecNonneg"),
        Mutant("M1.6", "broadcast skips the sender", partial(SkipsSender, chain("ab"), A), "RecordCount"),
        Mutant("M1.7", "recv_upd does not dequeue", partial(DeliversAgain, chain("ab"), AA), "Inv1"),
        Mutant(
            "E1.1",
            "supp with <= instead of <",
            partial(SupportsReflexively, chain("ab"), A),
            breaks=None,
            same_as=_TWO_POINTS,
        ),
        Mutant(
            "F1.1",
            "no fairness of send_upd",
            partial(NeverTrustedToSend, chain("ab"), A),
            "vacant(rec, a) ~> vacant(glob[0], a)",
        ),
        Mutant(
            "F1.2",
            "no fairness of recv_upd",
            partial(NeverTrustedToReceive, chain("ab"), A),
            "vacant(rec, a) ~> vacant(glob[0], a)",
        ),
    ),
    checks=(
        Check("Safe, chain", partial(safe_along_every_path, partial(Clocks, chain("ab"), A))),
        Check("Safe, V order", partial(safe_along_every_path, partial(Clocks, vee(), A))),
        Check("Safe, 3 workers", partial(safe_along_every_path, partial(Clocks, chain("ab"), A, workers=3))),
    ),
)
