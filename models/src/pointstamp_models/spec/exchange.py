"""The exchange protocol: capabilities are owned by workers, and data messages carry them to others.

This is section 4 of Brun et al. (2021), as in the Isabelle theory Exchange. Where the clocks protocol reads
the true occupancy, which no worker can see, a worker here looks at its own capabilities alone. A worker may
drop what it owns, mint for itself at or above what it owns, and send strictly above what it owns; all three
are judged by what it owns *before* the operation, otherwise minting would justify itself.

What is kept: where a view is vacant up to a point, the true occupancy is and stays so. The inductive
invariant behind it is JustifiedII: every positive count in flight is either paid for by a negative one
below, or lies above a capability of its sender, or is less than what its sender owns at that point.

Operations are not upright: their total may even be zero while a capability moves into a message. Without a
bound on the number of operations the state space is infinite, so a state carries how many are left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple, TypeAlias

from pointstamp_models.spec.broadcasting import (
    Broadcasting,
    Network,
    PointOrder,
    Queue,
    WorkerIndex,
    has_label,
    quiet,
    replaced,
)
from pointstamp_models.spec.model import Invariant, Label, StepProperty
from pointstamp_models.spec.multiset import (
    EMPTY,
    ZM,
    Point,
    count,
    covered,
    justified,
    justified_with,
    minus,
    nonnegative,
    nonpos,
    plus,
    supported,
    total,
)

Carried: TypeAlias = tuple[ZM, ...]
"""Capabilities by the worker that is to receive them: the multiset of (receiver, point) pairs."""


class ExchangeState(NamedTuple):
    """A state of the exchange protocol; the true occupancy is what caps and data hold together."""

    caps: tuple[ZM, ...]
    """caps[w]: what w owns; only w may use it."""
    data: Carried
    """data[w]: what messages in flight to w carry, in no order."""
    temp: tuple[ZM, ...]
    msg: tuple[tuple[Queue, ...], ...]
    glob: tuple[ZM, ...]
    ops: int
    """The number of operations that may still be performed."""


class Operation(NamedTuple):
    """The atomic effect of one perf_op."""

    dropped: ZM
    """Dneg: capabilities that the worker gives up."""
    sent: Carried
    """Ddata: capabilities that data messages carry away."""
    minted: ZM
    """Dself: capabilities that the worker makes for itself."""

    def does_something(self) -> bool:
        """Guard (i): a message is sent, or the capabilities of the worker change."""
        return any(self.sent) or self.dropped != self.minted

    def of_worker(self) -> ZM:
        """The change of the worker's capabilities."""
        return minus(self.minted, self.dropped)

    def of_all(self) -> ZM:
        """The change of the true occupancy."""
        return total((self.of_worker(), *self.sent))


class Exchange(Broadcasting[ExchangeState]):
    """The exchange protocol with at most one capability in each part of an operation.

    ``caps`` are the initial capabilities of each worker. ``data`` is empty in the paper; a system that
    recovers starts with messages already in flight, and every view includes them.
    """

    name = "exchange"
    state_type = ExchangeState

    def __init__(
        self, order: PointOrder, caps: tuple[ZM, ...], *, ops: int, data: Carried | None = None
    ) -> None:
        super().__init__(order, len(caps))
        self.nothing: Carried = (EMPTY,) * len(caps)
        self.caps = caps
        self.data = data if data is not None else self.nothing
        self.ops = ops
        self.occupancy = cache(total)
        self.absences = cache(self._absences)
        self.is_justified = cache(self.justified)
        self.are_justified_with = cache(self._are_justified_with)
        self.small_operations = tuple(self._small_operations())

    def network(self, state: ExchangeState) -> Network:
        """Three fields of the state."""
        return Network(state.temp, state.msg, state.glob)

    def with_network(self, state: ExchangeState, network: Network) -> ExchangeState:
        """Capabilities and data do not take part in broadcasting."""
        return ExchangeState(state.caps, state.data, *network, state.ops)

    def rec(self, state: ExchangeState) -> ZM:
        """All capabilities that are owned or carried by messages."""
        rec: ZM = self.occupancy(state.caps + state.data)
        return rec

    def initial(self) -> Iterable[ExchangeState]:
        """Nothing is in flight but the given data, and every view is exact."""
        rec = total(self.caps + self.data)
        yield ExchangeState(self.caps, self.data, *quiet(rec, len(self.workers)), self.ops)

    # Guards; each is one that a broken variant changes.

    def operations(self, state: ExchangeState, w: WorkerIndex) -> Iterable[Operation]:
        """The operations to try; the guards decide."""
        return self.small_operations

    def operations_left(self, state: ExchangeState) -> int | None:
        """The number of operations left after one more; None if this one exceeds the limit."""
        return state.ops - 1 if state.ops > 0 else None

    def may_drop(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """Guard (ii): a worker drops only what it owns."""
        caps = state.caps[w]
        return all(number <= count(caps, point) for point, number in operation.dropped)

    def may_send_data(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """Guard (iii): what is sent lies strictly above something owned."""
        caps = state.caps[w]
        return all(covered(self.order, caps, point) for part in operation.sent for point, _ in part)

    def may_mint(self, state: ExchangeState, w: WorkerIndex, operation: Operation) -> bool:
        """Guard (iv): what is minted lies at or above something owned."""
        return self.above(state.caps[w], operation.minted)

    def above(self, caps: ZM, minted: ZM) -> bool:
        """Return whether each minted point has a positive count at or below it."""
        return all(count(caps, point) > 0 or covered(self.order, caps, point) for point, _ in minted)

    def justified(self, caps: ZM, m: ZM) -> bool:
        """Return whether a worker with these capabilities may keep, or have sent, the changes m."""
        return justified(self.order, caps, m)

    def may_hold_back(self, state: ExchangeState, w: WorkerIndex, rest: ZM) -> bool:
        """Guard of send_upd: what w keeps is justified by what it owns."""
        return self.justified(state.caps[w], rest)

    def reported_by_recv_cap(self, point: Point) -> ZM:
        """The changes that the receiver of a message broadcasts: none, because rec does not change."""
        return EMPTY

    # Actions.

    def recv_cap(self, state: ExchangeState, w: WorkerIndex, point: Point) -> ExchangeState:
        """Take a capability out of a message; it is now owned by w."""
        taken = ((point, 1),)
        return state._replace(
            caps=replaced(state.caps, w, plus(state.caps[w], taken)),
            data=replaced(state.data, w, minus(state.data[w], taken)),
            temp=replaced(state.temp, w, plus(state.temp[w], self.reported_by_recv_cap(point))),
        )

    def perf_op(self, state: ExchangeState, w: WorkerIndex, operation: Operation, ops: int) -> ExchangeState:
        """Drop, mint and send at once, and remember the total change for broadcasting."""
        return state._replace(
            caps=replaced(state.caps, w, plus(state.caps[w], operation.of_worker())),
            data=tuple(map(plus, state.data, operation.sent)),
            temp=replaced(state.temp, w, plus(state.temp[w], operation.of_all())),
            ops=ops,
        )

    def recv_cap_steps(self, state: ExchangeState) -> Iterator[tuple[Label, ExchangeState]]:
        """Every recv_cap(w, p): whatever is carried may arrive next."""
        for w, carried in enumerate(state.data):
            for point, _ in carried:
                yield ("recv_cap", w, point), self.recv_cap(state, w, point)

    def perf_op_steps(self, state: ExchangeState) -> Iterator[tuple[Label, ExchangeState]]:
        """Every perf_op(w, Dneg, Ddata, Dself) that changes something and passes the guards."""
        left = self.operations_left(state)
        if left is None:
            return
        for w in self.workers:
            for operation in self.operations(state, w):
                if (
                    operation.does_something()
                    and self.may_drop(state, w, operation)
                    and self.may_send_data(state, w, operation)
                    and self.may_mint(state, w, operation)
                ):
                    yield ("perf_op", w, *operation), self.perf_op(state, w, operation, left)

    def steps(self, state: ExchangeState) -> Iterator[tuple[Label, ExchangeState]]:
        """Every enabled step."""
        yield from self.perf_op_steps(state)
        yield from self.recv_cap_steps(state)
        yield from self.send_upd_steps(state)
        yield from self.recv_upd_steps(state)

    def _small_operations(self) -> Iterator[Operation]:
        units: list[ZM] = [((point, 1),) for point in self.points]
        messages = [replaced(self.nothing, w, unit) for w in self.workers for unit in units]
        for dropped in (EMPTY, *units):
            for minted in (EMPTY, *units):
                for sent in (self.nothing, *messages):
                    yield Operation(dropped, sent, minted)

    # Properties, by the names of the paper and of the Isabelle theory.

    def invariants(self) -> Mapping[str, Invariant[ExchangeState]]:
        """The properties of every reachable state; users rely on GlobVacImpRecVac."""
        return {
            "CapsNonneg": self.caps_nonneg,
            "RecordCount": self.record_count,
            "TempJustified": self.temp_justified,
            "JustifiedII": self.justified_ii,
            "JustifiedGII": self.justified_gii,
            "InfoJustifiedWithII": self.info_justified_with_ii,
            "GlobNonposImpRecNonpos": self.glob_nonpos_implies_rec_nonpos,
            "GlobVacImpRecVac": self.glob_vacant_implies_rec_vacant,
            "GlobNonposEqVacant": self.glob_nonpos_equals_vacant,
            "MsgInGlob": self.msg_in_glob,
        }

    def step_properties(self) -> Mapping[str, StepProperty[ExchangeState]]:
        """The properties of every reachable step."""
        return {"RecordsMono": self.rec_vacancy_is_kept, "GlobMono": self.glob_vacancy_is_kept}

    def may_stop(self, state: ExchangeState) -> bool:
        """A run ends only when everything is told, and every message has arrived."""
        return super().may_stop(state) and not any(state.data)

    def caps_nonneg(self, state: ExchangeState) -> bool:
        """CapsNonneg: no worker owns a negative count, and so rec is not negative either."""
        return all(map(nonnegative, state.caps)) and nonnegative(self.rec(state))

    def temp_justified(self, state: ExchangeState) -> bool:
        """TempJustified: what a worker has not sent yet is justified by what it owns."""
        return all(map(self.is_justified, state.caps, state.temp))

    def justified_ii(self, state: ExchangeState) -> bool:
        """JustifiedII: so is every end of every queue together with what is not sent; this is inductive."""
        return all(
            self.is_justified(caps, info)
            for caps, temp, row in zip(state.caps, state.temp, state.msg, strict=True)
            for queue in row
            for info in self.infos(queue, temp)
        )

    def justified_gii(self, state: ExchangeState) -> bool:
        """JustifiedGII: all that is in flight to q, but for the k oldest of one w, is justified by rec."""
        rec = self.rec(state)
        for q in self.workers:
            infos = [self.infos(state.msg[w][q], state.temp[w]) for w in self.workers]
            whole = total(of_worker[0] for of_worker in infos)
            for of_worker in infos:
                others = minus(whole, of_worker[0])
                if not all(self.is_justified(rec, plus(others, info)) for info in of_worker):
                    return False
        return True

    def info_justified_with_ii(self, state: ExchangeState) -> bool:
        """InfoJustifiedWithII: each message is justified with the help of what its sender tells later."""
        return all(
            self.are_justified_with(caps, queue, temp)
            for caps, temp, row in zip(state.caps, state.temp, state.msg, strict=True)
            for queue in row
        )

    def glob_nonpos_implies_rec_nonpos(self, state: ExchangeState) -> bool:
        """GlobNonposImpRecNonpos: what a view shows as absent is absent; the combined tracker rests on it."""
        truly = self.absences(self.rec(state))
        return all(self.absences(view) <= truly for view in state.glob)

    def glob_nonpos_equals_vacant(self, state: ExchangeState) -> bool:
        """GlobNonposEqVacant: "no positive count" and "no count at all" say the same about a view."""
        return all(self.absences(view) == self.vacancies(view) for view in state.glob)

    def msg_in_glob(self, state: ExchangeState) -> bool:
        """MsgInGlob: whatever a queued message refers to, its receiver sees something at or below it."""
        return all(
            point not in self.absences(view)
            for row in state.msg
            for queue, view in zip(row, state.glob, strict=True)
            for message in queue
            for point, _ in message
        )

    # What must be reachable.

    def witnesses(self) -> Mapping[str, Invariant[ExchangeState]]:
        """A consumer may drop a capability before anybody heard of its creation."""
        return {"NegativeGlob": lambda state: not all(map(nonnegative, state.glob))}

    def step_witnesses(self) -> Mapping[str, StepProperty[ExchangeState]]:
        """The two kinds of step in which this protocol is freer than the clocks protocol."""
        return {
            "DeltaZeroOp": self.moves_without_change,
            "ThirdDisjunctSend": self.holds_back_by_third_disjunct,
        }

    def moves_without_change(self, before: ExchangeState, label: Label, after: ExchangeState) -> bool:
        """A perf_op whose total is zero: a capability moves from its owner into a message."""
        return label[0] == "perf_op" and before.temp == after.temp

    def holds_back_by_third_disjunct(self, before: ExchangeState, label: Label, after: ExchangeState) -> bool:
        """A send_upd that keeps a positive count justified only by more being owned at that point."""
        if label[0] != "send_upd":
            return False
        rest, caps = after.temp[label[1]], after.caps[label[1]]
        return any(
            0 < number < count(caps, point)
            and not supported(self.order, rest, point)
            and not covered(self.order, caps, point)
            for point, number in rest
        )

    def fairness(self) -> Mapping[str, Callable[[ExchangeState, Label], bool]]:
        """The fairness of broadcasting; data messages eventually arrive."""
        arrivals = {
            f"recv_cap({w}, {self.order.names[p]})": partial(has_label, ("recv_cap", w, p))
            for w in self.workers
            for p in self.points
        }
        return {**super().fairness(), **arrivals}

    def _absences(self, m: ZM) -> frozenset[Point]:
        """The points up to which m has no positive count."""
        return frozenset(point for point in self.points if nonpos(self.order, m, point))

    def _are_justified_with(self, caps: ZM, queue: Queue, temp: ZM) -> bool:
        infos = self.infos(queue, temp)
        return all(
            justified_with(self.order, caps, message, later)
            for message, later in zip(queue, infos[1:], strict=True)
        )

    # For a reader.

    def describe_label(self, label: Label) -> str:
        """Show an operation by what it drops, mints and sends."""
        if label[0] == "recv_cap":
            return f"recv_cap({label[1]}, {self.order.names[label[2]]})"
        if label[0] != "perf_op":
            return super().describe_label(label)
        _, worker, dropped, sent, minted = label
        parts = [f"drop {self.show(dropped)}"] if dropped else []
        parts += [f"mint {self.show(minted)}"] if minted else []
        parts += [f"send {self.show(carried)} to {w}" for w, carried in enumerate(sent) if carried]
        return f"perf_op({worker}: {', '.join(parts)})"

    def describe_state(self, state: ExchangeState) -> str:
        """Show capabilities and messages before the broadcasting part."""
        caps, data = (" ".join(map(self.show, parts)) for parts in (state.caps, state.data))
        return f"caps = {caps}  data = {data}  {self.describe_network(state)}"
