"""The accumulating broadcast: batches are summed at a root for each host and at the top.

This refines the exchange protocol (Brun et al. 2021, section 4) by the broadcast of Naiad (Murray et al.
2013, section 3.3). Worker w tells all that it has to tell as one batch, which its root takes; a root sends
its sum to the top, which sums again and sends each sum to all workers. The root of a host is
its first worker; the top is worker 0. On the way down a sum passes the root of a host: two queues one after
the other are a queue, so there is one from the top to each worker.

The refinement: a batch of w that q has not heard is in msg[w][q], no matter whether it waits in a queue, at a
root, at the top or in a sum; its order there is the order of the stations. Telling is send_upd, hearing a sum
is a recv_upd for each batch in it, and everything in between changes nothing. So the properties of the
exchange protocol are judged on the state that a state here stands for (``abstract``), and each step must be
steps there (Refines), whatever is held back.

What is held back decides who waits. Below the top, changes are held while all are covered in the view of the
holder: it counts something strictly below each. The top also holds changes of a point that it counts, while
with them it still counts it. Kept: whenever the broadcast has nothing to do, every view has the frontier of
what truly exists (ExactAtRest).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple, TypeAlias

from pointstamp_models.spec.broadcasting import PointOrder, Queue, WorkerIndex, replaced
from pointstamp_models.spec.exchange import Carried, Exchange, ExchangeState
from pointstamp_models.spec.model import Invariant, Label, LeadsTo, Model, StepProperty
from pointstamp_models.spec.multiset import EMPTY, ZM, count, covered, frontier, plus, total

TOP: WorkerIndex = 0

Sum: TypeAlias = tuple[tuple[WorkerIndex, ZM], ...]
"""Batches by their workers, those of one worker in order; they are told as one."""


class AccumulatingState(NamedTuple):
    """A state of the accumulating broadcast, over the capabilities and data of the exchange protocol."""

    caps: tuple[ZM, ...]
    data: Carried
    temp: tuple[ZM, ...]
    up: tuple[Queue, ...]
    """up[w]: batches of w that its root has not taken; empty for a root."""
    held: tuple[Sum, ...]
    """held[r]: what root r has taken and not sent."""
    sums: tuple[tuple[Sum, ...], ...]
    """sums[r]: what root r has sent and the top has not taken."""
    down: tuple[tuple[Sum, ...], ...]
    """down[q]: what the top has sent and q has not heard; the top hears at once."""
    glob: tuple[ZM, ...]
    ops: int


def added(parts: Sum) -> ZM:
    """The changes of a sum."""
    return total(batch for _, batch in parts)


class Accumulating(Model[AccumulatingState]):
    """``roots`` says for each worker who its root is; a root is its own, and worker 0 is one."""

    name = "accumulating"
    state_type = AccumulatingState

    def __init__(
        self, order: PointOrder, roots: tuple[WorkerIndex, ...], caps: tuple[ZM, ...], *, ops: int
    ) -> None:
        self.exchange = Exchange(order, caps, ops=ops)
        self.order = order
        self.roots = roots
        self.workers = range(len(roots))
        self.lower_roots = [r for r in self.workers if roots[r] == r and r != TOP]
        self.abstract = cache(self._abstract)

    def initial(self) -> Iterable[AccumulatingState]:
        """The initial state of the exchange protocol, with nothing at any station."""
        for state in self.exchange.initial():
            yield self.at_rest(state)

    def at_rest(self, state: ExchangeState) -> AccumulatingState:
        """A state in which nothing is in flight, and every view is what truly exists."""
        none = ((),) * len(self.workers)
        rec = self.exchange.rec(state)
        views = (rec,) * len(self.workers)
        unsent: tuple[ZM, ...] = none
        return AccumulatingState(state.caps, state.data, unsent, none, none, none, none, views, state.ops)

    # What is held back; each is one that a broken variant changes.

    def is_covered(self, view: ZM, held: ZM) -> bool:
        """Return whether the view counts something strictly below each change."""
        return all(covered(self.order, view, point) for point, _ in held)

    def worker_may_hold(self, view: ZM, held: ZM) -> bool:
        """Return whether a worker that is not a root may wait with these changes."""
        return self.is_covered(view, held)

    def root_may_hold(self, view: ZM, held: ZM) -> bool:
        """Return whether the root of a host may wait with them."""
        return self.is_covered(view, held)

    def top_may_hold(self, view: ZM, held: ZM) -> bool:
        """Return whether the top may: no frontier would move."""
        return all(
            covered(self.order, view, point) or (count(view, point) > 0 and count(view, point) + number > 0)
            for point, number in held
        )

    def sums_down(self, parts: Sum) -> Iterable[Sum]:
        """The sum of the batches that the top has taken."""
        return (parts,)

    def takes(self, queue: Queue) -> int:
        """The batch of a queue that a root takes next: the oldest."""
        return 0

    def hearers(self) -> Iterable[WorkerIndex]:
        """The receivers of the top's sums: all workers."""
        return self.workers

    def on_telling(self, view: ZM, batch: ZM) -> ZM:
        """The view of a worker that has told: as before, for it hears of itself in a sum."""
        return view

    # Steps.

    def steps(self, state: AccumulatingState) -> Iterator[tuple[Label, AccumulatingState]]:
        """Every enabled step."""
        abstract = self.abstract(state)
        for steps in (self.exchange.perf_op_steps(abstract), self.exchange.recv_cap_steps(abstract)):
            for label, after in steps:
                yield (
                    label,
                    state._replace(caps=after.caps, data=after.data, temp=after.temp, ops=after.ops),
                )
        yield from self.broadcast_steps(state)

    def broadcast_steps(self, state: AccumulatingState) -> Iterator[tuple[Label, AccumulatingState]]:
        """Every enabled step that moves progress."""
        for w in self.workers:
            yield from self._tell(state, w)
            if state.up[w]:
                yield ("take", w), self._taken(state, w)
        for r in self.lower_roots:
            parts = state.held[r]
            if parts and not self.root_may_hold(state.glob[r], added(parts)):
                sums = replaced(state.sums, r, (*state.sums[r], parts))
                yield ("sum", r), state._replace(sums=sums, held=replaced(state.held, r, ()))
            if state.sums[r]:
                first, *rest = state.sums[r]
                taken = replaced(state.held, TOP, _joined(state.held[TOP], first))
                yield ("take_sum", r), state._replace(sums=replaced(state.sums, r, tuple(rest)), held=taken)
        parts = state.held[TOP]
        if parts and not self.top_may_hold(state.glob[TOP], added(parts)):
            yield ("send_down", TOP), self._sent_down(state, parts)
        for q in self.workers:
            if state.down[q]:
                yield ("hear", q), self._heard(state, q)

    def _tell(self, state: AccumulatingState, w: WorkerIndex) -> Iterator[tuple[Label, AccumulatingState]]:
        batch = state.temp[w]
        is_root = self.roots[w] == w
        if not batch or (not is_root and self.worker_may_hold(state.glob[w], batch)):
            return
        after = state._replace(
            temp=replaced(state.temp, w, EMPTY),
            glob=replaced(state.glob, w, self.on_telling(state.glob[w], batch)),
        )
        if is_root:
            yield (
                ("tell", w),
                after._replace(held=replaced(state.held, w, _joined(state.held[w], ((w, batch),)))),
            )
        else:
            yield ("tell", w), after._replace(up=replaced(state.up, w, (*state.up[w], batch)))

    def _taken(self, state: AccumulatingState, w: WorkerIndex) -> AccumulatingState:
        queue, root = state.up[w], self.roots[w]
        index = self.takes(queue)
        return state._replace(
            up=replaced(state.up, w, queue[:index] + queue[index + 1 :]),
            held=replaced(state.held, root, _joined(state.held[root], ((w, queue[index]),))),
        )

    def _sent_down(self, state: AccumulatingState, parts: Sum) -> AccumulatingState:
        down, glob = state.down, state.glob
        for each in self.sums_down(parts):
            for q in self.hearers():
                if q == TOP:
                    glob = replaced(glob, TOP, plus(glob[TOP], added(each)))
                else:
                    down = replaced(down, q, (*down[q], each))
        return state._replace(held=replaced(state.held, TOP, ()), down=down, glob=glob)

    def _heard(self, state: AccumulatingState, q: WorkerIndex) -> AccumulatingState:
        first, *rest = state.down[q]
        glob = replaced(state.glob, q, plus(state.glob[q], added(first)))
        return state._replace(down=replaced(state.down, q, tuple(rest)), glob=glob)

    # What a state stands for.

    def _abstract(self, state: AccumulatingState) -> ExchangeState:
        """The state of the exchange protocol: msg[w][q] is what w told and q has not heard, oldest first."""
        msg = tuple(tuple(self._unheard(state, w, q) for q in self.workers) for w in self.workers)
        return ExchangeState(state.caps, state.data, state.temp, msg, state.glob, state.ops)

    def _unheard(self, state: AccumulatingState, w: WorkerIndex, q: WorkerIndex) -> Queue:
        root = self.roots[w]
        stations = [*state.down[q], state.held[TOP], *state.sums[root]]
        if root != TOP:
            stations.append(state.held[root])
        waiting = tuple(batch for parts in stations for sender, batch in parts if sender == w)
        return (*waiting, *state.up[w])

    def refines(self, before: AccumulatingState, label: Label, after: AccumulatingState) -> bool:
        """Refines: a step here is zero or more steps of the exchange protocol."""
        exchange, there = self.exchange, self.abstract(before)
        kind = label[0]
        if kind == "tell":
            w = label[1]
            there = exchange.send_upd(there, w, [point for point, _ in before.temp[w]])
        elif kind in ("hear", "send_down"):
            q = label[1]
            for w, _ in before.down[q][0] if kind == "hear" else before.held[TOP]:
                there = exchange.recv_upd(there, w, q)
        elif kind in ("perf_op", "recv_cap"):
            # Taken from the exchange protocol as they are; the broadcast must not notice.
            there = there._replace(caps=after.caps, data=after.data, temp=after.temp, ops=after.ops)
        return there == self.abstract(after)

    # Properties.

    def invariants(self) -> Mapping[str, Invariant[AccumulatingState]]:
        """Those of the exchange protocol, of what a state stands for; and that no worker waits forever."""
        inherited: dict[str, Invariant[AccumulatingState]] = {
            name: partial(self._holds_there, invariant)
            for name, invariant in self.exchange.invariants().items()
        }
        return {**inherited, "ExactAtRest": self.exact_at_rest}

    def _holds_there(self, invariant: Invariant[ExchangeState], state: AccumulatingState) -> bool:
        return invariant(self.abstract(state))

    def exact_at_rest(self, state: AccumulatingState) -> bool:
        """ExactAtRest: if no progress can move, every view has the frontier of what truly exists."""
        if next(self.broadcast_steps(state), None) is not None:
            return True
        truly = frontier(self.order, self.exchange.rec(self.abstract(state)))
        return all(frontier(self.order, view) == truly for view in state.glob)

    def step_properties(self) -> Mapping[str, StepProperty[AccumulatingState]]:
        """Refines; and those of the exchange protocol."""
        inherited: dict[str, StepProperty[AccumulatingState]] = {
            name: partial(self._holds_of_step, holds)
            for name, holds in self.exchange.step_properties().items()
        }
        return {**inherited, "Refines": self.refines}

    def _holds_of_step(
        self,
        holds: StepProperty[ExchangeState],
        before: AccumulatingState,
        label: Label,
        after: AccumulatingState,
    ) -> bool:
        return holds(self.abstract(before), label, self.abstract(after))

    def witnesses(self) -> Mapping[str, Invariant[AccumulatingState]]:
        """Sums of two workers' batches; something held at the top by count, and below the top by cover."""
        return {
            "SumOfTwo": self.has_sum_of_two,
            "HeldAtTop": self.holds_at_top,
            "HeldBelow": self.holds_below,
        }

    def has_sum_of_two(self, state: AccumulatingState) -> bool:
        """A sum in flight down has batches of two workers."""
        return any(len({w for w, _ in parts}) > 1 for queue in state.down for parts in queue)

    def holds_at_top(self, state: AccumulatingState) -> bool:
        """The top holds a change of a point that nothing covers."""
        held, view = added(state.held[TOP]), state.glob[TOP]
        return bool(held) and self.top_may_hold(view, held) and not self.is_covered(view, held)

    def holds_below(self, state: AccumulatingState) -> bool:
        """The root of a host holds changes because they are covered."""
        return any(
            added(state.held[r]) and self.root_may_hold(state.glob[r], added(state.held[r]))
            for r in self.lower_roots
        )

    def fairness(self) -> Mapping[str, Callable[[AccumulatingState, Label], bool]]:
        """Each station in the end does what it can, and data messages in the end arrive."""
        kinds = ("tell", "take", "sum", "take_sum", "send_down", "hear", "recv_cap")
        return {f"{kind}({w})": partial(_is_step, kind, w) for kind in kinds for w in self.workers}

    def liveness(self) -> Mapping[str, LeadsTo[AccumulatingState]]:
        """Liveness as in the exchange protocol: every view eventually becomes vacant where the truth is."""
        return {
            name: LeadsTo(partial(self._holds_there, each.trigger), partial(self._holds_there, each.goal))
            for name, each in self.exchange.liveness().items()
        }

    def describe_label(self, label: Label) -> str:
        """Operations as the exchange protocol shows them."""
        return self.exchange.describe_label(label)


def _joined(held: Sum, more: Sum) -> Sum:
    """All batches by worker; those of one worker stay in order, and no other order matters."""
    return tuple(sorted((*held, *more), key=_worker_of))


def _worker_of(part: tuple[WorkerIndex, ZM]) -> WorkerIndex:
    return part[0]


def _is_step(kind: str, w: WorkerIndex, state: object, label: Label) -> bool:
    return label[:2] == (kind, w)
