"""The exchange protocol of a flow whose last part stays on each worker: what a worker knows by itself there.

Some points are *inside* the tail: pointstamps behind the last exchange. Capabilities for them are minted by
their owner, as everywhere, but data messages for them go from a worker to itself alone. The others are
outside. A worker takes its own part up to a point inside for done when its view is vacant up to everything
outside that lies below, and it neither owns anything inside up to there nor has it in flight to itself. It
does not ask whether its view is vacant inside, where others may be for long.

Kept: what a worker has taken for done stays done (OwnPartKept). All else is the exchange protocol (Brun et
al. 2021, section 4), whose steps are not changed. A worker sends all that it has to tell or nothing, when it
likes: a late report is not a step.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from pointstamp_models.spec.broadcasting import PointOrder, WorkerIndex
from pointstamp_models.spec.exchange import Carried, Exchange, ExchangeState, Operation
from pointstamp_models.spec.model import Invariant, Label, StepProperty
from pointstamp_models.spec.multiset import ZM, Point, plus, vacant


class TailedExchange(Exchange):
    """``inside`` are the points of the tail; what lies above one of them is one, too."""

    name = "tails"

    def __init__(
        self,
        order: PointOrder,
        caps: tuple[ZM, ...],
        *,
        ops: int,
        inside: frozenset[Point],
        data: Carried | None = None,
    ) -> None:
        super().__init__(order, caps, ops=ops, data=data)
        self.inside = inside
        self.own_parts = cache(self._own_parts)

    # What is different from the exchange protocol: less is sent. Each is one that a broken variant changes.

    def stays(self, w: WorkerIndex, operation: Operation) -> bool:
        """Return whether what is sent inside the tail goes from w to itself."""
        return not any(
            point in self.inside for q, part in enumerate(operation.sent) if q != w for point, _ in part
        )

    def may_send_data(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """The guard of the exchange protocol, for messages that stay where they must."""
        return self.stays(w, operation) and super().may_send_data(state, w, operation)

    def sends(self, state: ExchangeState, w: WorkerIndex) -> Iterable[tuple[Point, ...]]:
        """All unsent changes of w."""
        changed = tuple(point for point, _ in state.temp[w])
        return (changed,) if changed else ()

    # What a worker knows.

    def has_passed(self, view: ZM, point: Point) -> bool:
        """Return whether a view is vacant up to everything outside that lies below a point inside."""
        return all(
            vacant(self.order, view, below)
            for below in self.points
            if below not in self.inside and self.order.less(below, point)
        )

    def own(self, state: ExchangeState, q: WorkerIndex) -> ZM:
        """The capabilities that q owns, and the messages in flight to it."""
        return plus(state.caps[q], state.data[q])

    def _own_parts(self, state: ExchangeState) -> frozenset[tuple[WorkerIndex, Point]]:
        """The workers that consider their own part complete, and the points up to which."""
        return frozenset(
            (q, point)
            for q in self.workers
            for point in self.inside
            if self.has_passed(state.glob[q], point)
            and not any(
                each == point or self.order.less(each, point)
                for each, _ in self.own(state, q)
                if each in self.inside
            )
        )

    def own_part_is_kept(self, before: ExchangeState, label: Label, after: ExchangeState) -> bool:
        """OwnPartKept: what a worker has taken for done stays done."""
        return self.own_parts(before) <= self.own_parts(after)

    def step_properties(self) -> Mapping[str, StepProperty[ExchangeState]]:
        """Those of the exchange protocol, and OwnPartKept."""
        return {**super().step_properties(), "OwnPartKept": self.own_part_is_kept}

    def witnesses(self) -> Mapping[str, Invariant[ExchangeState]]:
        """Somebody knows more by itself than its view says."""
        return {"KnownEarly": self.is_known_early}

    def step_witnesses(self) -> Mapping[str, StepProperty[ExchangeState]]:
        """Those of the exchange protocol, but for holding back a part: everything is told, or nothing."""
        found = dict(super().step_witnesses())
        del found["ThirdDisjunctSend"]
        return found

    def is_known_early(self, state: ExchangeState) -> bool:
        """A worker has taken its part for done up to a point at which its view still counts something."""
        return any(not vacant(self.order, state.glob[q], point) for q, point in self.own_parts(state))
