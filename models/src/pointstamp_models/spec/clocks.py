"""The clocks protocol of Abadi et al. (2013): every worker keeps a late view of which points are occupied.

Section 3 of the paper, section 3 of Brun et al. (2021), and the Isabelle theory Exchange_Abadi. An operation
consumes some records and produces others at once; it may produce at a point only if it consumes strictly
below it (its change is *upright*). The changes are broadcast as in ``broadcasting``, and what a worker holds
back while it sends the rest is upright too.

What is kept: where a view is vacant up to a point, the true occupancy is and stays so (Safe, from Inv1 and
Safe2). The inductive invariant behind it is InfoUpright, on every end of every queue.

The change of an operation is produced minus consumed. The printed formula adds them, and then no change but
the empty one is upright: the protocol does nothing and every invariant holds. The witnesses are there for
such mistakes. An operation whose change is zero leaves the state as it is, so it is not listed as a step.

This protocol reads the true occupancy when it consumes, which no worker can see: two workers that consume by
their views may consume the same record. The exchange protocol repairs that.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

from pointstamp_models.spec.broadcasting import (
    Broadcasting,
    Network,
    PointOrder,
    Queue,
    WorkerIndex,
    quiet,
    replaced,
)
from pointstamp_models.spec.model import Invariant, Label, StepProperty
from pointstamp_models.spec.multiset import (
    ZM,
    StrictOrder,
    count,
    minus,
    nonnegative,
    plus,
    supported,
    total,
    upright,
    zm,
)


class ClocksState(NamedTuple):
    """A state of the clocks protocol."""

    rec: ZM
    """The true occupancy: how many records there are at each point."""
    temp: tuple[ZM, ...]
    msg: tuple[tuple[Queue, ...], ...]
    glob: tuple[ZM, ...]


class Operation(NamedTuple):
    """The consumption and production of one perf_op, and the change of the occupancy."""

    consumed: ZM
    produced: ZM
    change: ZM


class Clocks(Broadcasting[ClocksState]):
    """The clocks protocol, in which an operation consumes and produces at most so many records.

    On a finite order it ends by itself: each operation replaces records by higher ones.
    """

    name = "clocks"
    state_type = ClocksState

    def __init__(
        self,
        order: PointOrder,
        rec: ZM,
        *,
        workers: int = 2,
        consumed_max: int = 1,
        produced_max: int = 1,
    ) -> None:
        super().__init__(order, workers)
        self.initial_rec = rec
        self.is_upright = cache(self.upright)
        # Whether an operation's change is upright does not depend on the state, so it is decided here once.
        self.operations = tuple(self._operations(consumed_max, produced_max))
        self.are_supported = cache(self._are_supported)

    def network(self, state: ClocksState) -> Network:
        """Three fields of the state."""
        return Network(state.temp, state.msg, state.glob)

    def with_network(self, state: ClocksState, network: Network) -> ClocksState:
        """The true occupancy does not take part in broadcasting."""
        return ClocksState(state.rec, *network)

    def rec(self, state: ClocksState) -> ZM:
        """A field of the state."""
        return state.rec

    def initial(self) -> Iterable[ClocksState]:
        """Nothing is in flight, and every view is exact."""
        yield ClocksState(self.initial_rec, *quiet(self.initial_rec, len(self.workers)))

    # Guards and effects; each is one that a broken variant changes.

    def support_order(self) -> StrictOrder:
        """The order in which a negative count must lie below a positive one: strict."""
        return self.order

    def upright(self, m: ZM) -> bool:
        """Return whether every positive count of m has a negative one strictly below it."""
        return upright(self.support_order(), m)

    def change(self, consumed: ZM, produced: ZM) -> ZM:
        """The change of an operation: produced minus consumed."""
        return minus(produced, consumed)

    def consumable(self, state: ClocksState, w: WorkerIndex) -> ZM:
        """The records that w may consume: those that truly exist."""
        return state.rec

    def may_perform(self, change: ZM) -> bool:
        """Guard of perf_op: its change is upright."""
        return self.is_upright(change)

    def may_hold_back(self, state: ClocksState, w: WorkerIndex, rest: ZM) -> bool:
        """Guard of send_upd: what is kept is upright."""
        return self.is_upright(rest)

    # Actions.

    def perf_op(self, state: ClocksState, w: WorkerIndex, change: ZM) -> ClocksState:
        """Change the true occupancy, and remember the change for broadcasting."""
        return state._replace(
            rec=plus(state.rec, change),
            temp=replaced(state.temp, w, plus(state.temp[w], change)),
        )

    def perf_op_steps(self, state: ClocksState) -> Iterator[tuple[Label, ClocksState]]:
        """Every enabled perf_op(w, c, r) that changes something."""
        for w in self.workers:
            consumable = self.consumable(state, w)
            for operation in self.operations:
                if all(number <= count(consumable, point) for point, number in operation.consumed):
                    label = ("perf_op", w, operation.consumed, operation.produced)
                    yield label, self.perf_op(state, w, operation.change)

    def steps(self, state: ClocksState) -> Iterator[tuple[Label, ClocksState]]:
        """Every enabled step."""
        yield from self.perf_op_steps(state)
        yield from self.send_upd_steps(state)
        yield from self.recv_upd_steps(state)

    def _operations(self, consumed_max: int, produced_max: int) -> Iterator[Operation]:
        for consumed in self._multisets(consumed_max):
            for produced in self._multisets(produced_max):
                change = self.change(consumed, produced)
                if change and self.may_perform(change):
                    yield Operation(consumed, produced, change)

    def _multisets(self, size_max: int) -> Iterator[ZM]:
        for size in range(size_max + 1):
            for chosen in combinations_with_replacement(self.points, size):
                yield zm((point, 1) for point in chosen)

    # Properties, by the names of the papers.

    def invariants(self) -> Mapping[str, Invariant[ClocksState]]:
        """The properties of every reachable state; users rely on Inv1."""
        return {
            "RecNonneg": self.rec_nonneg,
            "RecordCount": self.record_count,
            "TempUpright": self.temp_upright,
            "InfoUpright": self.info_upright,
            "AllInfoUpright": self.all_info_upright,
            "BetaUpright": self.beta_upright,
            "Inv1": self.glob_vacant_implies_rec_vacant,
        }

    def step_properties(self) -> Mapping[str, StepProperty[ClocksState]]:
        """The properties of every reachable step; with Inv1, Safe2 means that vacant views stay right."""
        return {"Safe2": self.rec_vacancy_is_kept, "Safe3": self.glob_vacancy_is_kept}

    def rec_nonneg(self, state: ClocksState) -> bool:
        """RecNonneg: no point holds less than nothing."""
        return nonnegative(state.rec)

    def temp_upright(self, state: ClocksState) -> bool:
        """TempUpright: what a worker has not sent yet is upright."""
        return all(map(self.is_upright, state.temp))

    def info_upright(self, state: ClocksState) -> bool:
        """InfoUpright: so is every end of every queue together with what is not sent; this is inductive."""
        return all(
            self.is_upright(info)
            for temp, row in zip(state.temp, state.msg, strict=True)
            for queue in row
            for info in self.infos(queue, temp)
        )

    def all_info_upright(self, state: ClocksState) -> bool:
        """AllInfoUpright: all that is in flight to one worker is upright."""
        return all(
            self.is_upright(total(self.infos(state.msg[w][q], state.temp[w])[0] for w in self.workers))
            for q in self.workers
        )

    def beta_upright(self, state: ClocksState) -> bool:
        """BetaUpright: what a message adds is paid for by itself or by what its sender tells later."""
        return all(
            self.are_supported(queue, temp)
            for temp, row in zip(state.temp, state.msg, strict=True)
            for queue in row
        )

    def _are_supported(self, queue: Queue, temp: ZM) -> bool:
        infos = self.infos(queue, temp)
        return all(
            supported(self.order, message, point) or supported(self.order, later, point)
            for message, later in zip(queue, infos[1:], strict=True)
            for point, number in message
            if number > 0
        )

    def witnesses(self) -> Mapping[str, Invariant[ClocksState]]:
        """All work can end and be known to have ended; a view can be negative; two views can differ."""
        return {
            "AllVacant": lambda state: bool(self.initial_rec) and not state.rec and not any(state.glob),
            "NegativeGlob": lambda state: not all(map(nonnegative, state.glob)),
            "GlobsDiffer": lambda state: len(set(state.glob)) > 1,
        }

    # For a reader.

    def describe_label(self, label: Label) -> str:
        """Show an operation by what it consumes and produces."""
        if label[0] != "perf_op":
            return super().describe_label(label)
        _, worker, consumed, produced = label
        return f"perf_op({worker}: consume {self.show(consumed)}, produce {self.show(produced)})"

    def describe_state(self, state: ClocksState) -> str:
        """Show the true occupancy before the broadcasting part."""
        return f"rec = {self.show(state.rec)}  {self.describe_network(state)}"
