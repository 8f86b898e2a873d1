"""The exchange protocol before the judge: its published instances, and variants with one change each.

The published counts are of plain states with two workers and at most one capability in each part of an
operation. The number of operations left is part of a state, and a step is counted once for each label: to
drop and mint the same capability while sending is another step than to send alone, with the same effect.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pointstamp_models.catalogue.clocks import safe_along_every_path
from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant
from pointstamp_models.spec.broadcasting import PointOrder, WorkerIndex
from pointstamp_models.spec.exchange import Exchange, ExchangeState, Operation
from pointstamp_models.spec.model import Invariant, Label
from pointstamp_models.spec.multiset import EMPTY, ZM, Point, chain, count, covered, plus, supported, vee

A: Final[ZM] = ((0, 1),)
B: Final[ZM] = ((1, 1),)
C: Final[ZM] = ((2, 1),)
A_ON_0: Final = (A, EMPTY)
NOBODY: Final = (EMPTY, EMPTY)


class Recovering(Exchange):
    """The protocol started again by a recovery, while a message to worker 1 is in flight.

    Its views begin with b counted once, so that two operations cannot make a view negative; what must be
    reachable instead is that the message from before arrives, is consumed, and all workers learn it.
    """

    def witnesses(self) -> Mapping[str, Invariant[ExchangeState]]:
        """The message from before is used up, and all views show it."""
        return {
            "CarriedOverUsedUp": lambda state: (
                not any(state.data) and not any(count(m, 1) for m in state.glob)
            )
        }


class OneOperation(Exchange):
    """The protocol with too few operations to make a view negative: that takes a creation and a drop."""

    def witnesses(self) -> Mapping[str, Invariant[ExchangeState]]:
        """None; the two kinds of step are reachable even so."""
        return {}


class Recurrent(Exchange):
    """The protocol with operations forever, on finitely many states: only the backlog is bounded.

    An operation may start if no broadcast is in flight, at most one change is kept unsent, and at most two
    capabilities exist. That restricts operations only; nothing that fairness refers to.
    """

    def __init__(self, order: PointOrder, caps: tuple[ZM, ...]) -> None:
        super().__init__(order, caps, ops=0)

    def operations_left(self, state: ExchangeState) -> int | None:
        """The same number, but only while the backlog is small."""
        on_their_way = any(queue for row in state.msg for queue in row)
        kept = sum(abs(number) for temp in state.temp for _, number in temp)
        existing = sum(number for _, number in self.rec(state))
        return None if on_their_way or kept > 1 or existing > 2 else state.ops


class SendsAtOwnPoint(Exchange):
    """M2.1: data may be sent at a point that is owned, not only strictly above one."""

    def may_send_data(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """At or above something owned."""
        return all(self.above(state.caps[w], carried) for carried in operation.sent)


class HoldsBackAnything(Exchange):
    """M2.2: send_upd does not look at what is kept, so half of an operation may be told."""

    def may_hold_back(self, state: ExchangeState, w: WorkerIndex, rest: ZM) -> bool:
        """Always."""
        return True


class JustifiesAsManyAsOwned(Exchange):
    """M2.3: the third disjunct of justified is M(p) <= C(p)."""

    def justified(self, caps: ZM, m: ZM) -> bool:
        """The number owned is enough."""
        return all(
            supported(self.order, m, point)
            or covered(self.order, caps, point)
            or number <= count(caps, point)
            for point, number in m
            if number > 0
        )


class JustifiesNothingByOwning(Exchange):
    """M2.4: justified has no third disjunct."""

    def justified(self, caps: ZM, m: ZM) -> bool:
        """Owning does not justify."""
        return all(
            supported(self.order, m, point) or covered(self.order, caps, point)
            for point, number in m
            if number > 0
        )


class DropsAnything(Exchange):
    """M2.5: a worker may drop what it does not own."""

    def may_drop(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """Always."""
        return True


class ReportsReceivedCapabilities(Exchange):
    """M2.6: recv_cap also adds the capability to temp."""

    def reported_by_recv_cap(self, point: Point) -> ZM:
        """One more at that point."""
        return ((point, 1),)


class MintsByNewCapabilities(Exchange):
    """M2.7: minting is judged by what the worker owns after the operation."""

    def may_mint(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """At or above something owned afterwards."""
        return self.above(plus(state.caps[w], operation.of_worker()), operation.minted)


class MintsByView(Exchange):
    """M2.8: minting is judged by the view of the worker."""

    def may_mint(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """At or above something that w sees."""
        return self.above(state.glob[w], operation.minted)


class TrustedToSendSomething(Recurrent):
    """F2.1: each worker in the end sends something, but it may choose what, forever."""

    def send_fairness(self) -> Mapping[str, Callable[[ExchangeState, Label], bool]]:
        """One class for each worker, whatever it sends."""
        return {f"send_upd({w})": partial(_sends, w) for w in self.workers}


def _sends(w: WorkerIndex, state: object, label: Label) -> bool:
    return label[:2] == ("send_upd", w)


_VACANCY_IS_LEARNT: Final = "vacant(rec, a) ~> vacant(glob[0], a)"

ENTRY: Final[Entry] = Entry(
    name="exchange",
    title="Exchange protocol (Brun et al. 2021)",
    instances=(
        Instance(
            "chain a<b, 2 operations",
            partial(Exchange, chain("ab"), A_ON_0, ops=2),
            17_093,
            50_519,
            liveness=True,
        ),
        Instance(
            "chain a<b, recovering, 2 operations",
            partial(Recovering, chain("ab"), A_ON_0, ops=2, data=(EMPTY, B)),
            29_554,
        ),
        Instance("chain a<b, operations forever", partial(Recurrent, chain("ab"), A_ON_0), liveness=True),
        Instance(
            "V order, 1 operation",
            partial(OneOperation, vee(), (plus(A, B), C), ops=1),
            liveness=True,
        ),
        Instance("V order, 2 operations", partial(Exchange, vee(), A_ON_0, ops=2), long=True),
        Instance(
            "chain a<b<c, 2 operations",
            partial(Exchange, chain("abc"), A_ON_0, ops=2),
            444_267,
            1_466_094,
            long=True,
        ),
        Instance(
            "chain a<b, 3 operations",
            partial(Exchange, chain("ab"), A_ON_0, ops=3),
            840_132,
            3_035_154,
            long=True,
        ),
    ),
    mutants=(
        Mutant(
            "M2.1",
            "Ddata guard uses <=",
            partial(SendsAtOwnPoint, chain("a"), A_ON_0, ops=2),
            "GlobVacImpRecVac",
        ),
        Mutant(
            "M2.2",
            "send_upd without justified",
            partial(HoldsBackAnything, chain("ab"), A_ON_0, ops=2),
            "GlobVacImpRecVac",
        ),
        Mutant(
            "M2.3",
            "third disjunct <=",
            partial(JustifiesAsManyAsOwned, chain("ab"), A_ON_0, ops=2),
            "GlobVacImpRecVac",
        ),
        Mutant(
            "M2.4",
            "third disjunct missing",
            partial(JustifiesNothingByOwning, chain("ab"), A_ON_0, ops=2),
            "TempJustified",
        ),
        Mutant(
            "M2.5",
            "Dneg not bounded by caps",
            partial(DropsAnything, chain("ab"), NOBODY, ops=2),
            "CapsNonneg",
        ),
        Mutant(
            "M2.6",
            "recv_cap also adds to temp",
            partial(ReportsReceivedCapabilities, chain("ab"), A_ON_0, ops=2),
            "RecordCount",
        ),
        Mutant(
            "M2.7",
            "self guard on the capabilities after the step",
            partial(MintsByNewCapabilities, chain("ab"), NOBODY, ops=2),
            "RecordsMono",
        ),
        Mutant(
            "M2.8",
            "self guard uses glob instead of caps",
            partial(MintsByView, chain("ab"), A_ON_0, ops=2),
            "RecordsMono",
        ),
        Mutant(
            "F2.1",
            "fairness of send_upd(w), whatever it sends",
            partial(TrustedToSendSomething, chain("ab"), A_ON_0),
            _VACANCY_IS_LEARNT,
        ),
    ),
    checks=(
        Check(
            "Safe, chain",
            partial(safe_along_every_path, partial(Exchange, chain("ab"), A_ON_0, ops=2)),
        ),
        Check(
            "Safe, operations forever",
            partial(safe_along_every_path, partial(Recurrent, chain("ab"), A_ON_0)),
        ),
    ),
)
