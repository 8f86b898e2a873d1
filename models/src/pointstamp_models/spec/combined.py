"""The combined tracker: the exchange protocol between workers, and propagation on each of them.

Section 6 of Brun et al. (2021) (Isabelle theory Combined). The points of the exchange protocol are the
pointstamps (location, time), ordered by could-result-in; each worker feeds what it receives into its own
propagation, and propagates as one action until no work is left. init[w] says that w has done so once:
before that its frontiers are empty, which would read as "finished".

Kept: the pointstamps that a worker propagates are its view (PtsEqGlob), every change it receives is one
that propagation allows (CMEnabled), and no frontier that may be read has passed anything that exists
anywhere (SafeCombined). Frontiers may be read between propagations, never inside one.

Batches are sent whole, as the Rust implementation does, and propagate is atomic; both are schedules of the
paper's system. A propagation that would change nothing is not listed as a step. The invariants of the two
halves are judged in their own models.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

from pointstamp_models.spec.broadcasting import Queue, WorkerIndex, has_label, replaced
from pointstamp_models.spec.exchange import Carried, Exchange, ExchangeState
from pointstamp_models.spec.graph import Graph, Location
from pointstamp_models.spec.model import Invariant, Label, LeadsTo, Model, StepProperty
from pointstamp_models.spec.multiset import ZM, Point, Poset, zm
from pointstamp_models.spec.propagating import Configuration, PerLocation, Propagation, Time


class CombinedState(NamedTuple):
    """The exchange protocol's state, then one configuration per worker, part by part, and the init flags."""

    caps: tuple[ZM, ...]
    data: Carried
    temp: tuple[ZM, ...]
    msg: tuple[tuple[Queue, ...], ...]
    glob: tuple[ZM, ...]
    ops: int
    pts: tuple[PerLocation, ...]
    imp: tuple[PerLocation, ...]
    work: tuple[PerLocation, ...]
    init: tuple[bool, ...]
    """init[w]: w has propagated at least once, so its frontiers mean something."""

    def exchange(self) -> ExchangeState:
        """The part that the exchange protocol knows."""
        return ExchangeState(self.caps, self.data, self.temp, self.msg, self.glob, self.ops)

    def prop(self, w: WorkerIndex) -> Configuration:
        """prop[w]: the propagation of w."""
        return Configuration(self.pts[w], self.imp[w], self.work[w])


class WholeBatchExchange(Exchange):
    """The exchange protocol in which a worker broadcasts everything it has not broadcast yet."""

    def sends(self, state: ExchangeState, w: WorkerIndex) -> Iterable[tuple[Point, ...]]:
        """All of temp[w], so that nothing is held back and nothing needs to be justified."""
        return (tuple(point for point, _ in state.temp[w]),)


class CombinedTracker(Model[CombinedState]):
    """Workers that exchange progress and propagate it over one graph; ``caps`` by location and time.

    ``times`` are those at which capabilities may exist; propagation may go beyond them.
    """

    name = "combined"
    state_type = CombinedState
    protocol: ClassVar[type[Exchange]] = WholeBatchExchange

    def __init__(
        self,
        graph: Graph[Any, Any],
        caps: Iterable[Iterable[tuple[str, Time]]],
        *,
        times: Iterable[Time],
        ops: int,
    ) -> None:
        times = tuple(times)
        self.graph = graph
        self.pointstamps = tuple((location, time) for location in graph.locations() for time in times)
        self.propagation = Propagation(graph, times)
        owned = tuple(zm((self._point(*pair), 1) for pair in of_worker) for of_worker in caps)
        self.exchange = self.protocol(could_result_in_order(graph, self.pointstamps), owned, ops=ops)
        self.workers = self.exchange.workers
        self.can_finish = ops >= sum(number for of_worker in owned for _, number in of_worker)
        # There are few configurations and batches, and hundreds of thousands of states made of them.
        self._by_location = cache(self.by_location)
        self._received = cache(self.received)
        self._propagated = cache(self.propagated)
        self._can_change = cache(self.can_change)
        self._converged = cache(self.propagation.converged)
        self._safe = cache(self.propagation.safe)
        self._impl_safe = cache(self.propagation.impl_safe)
        self._expects = cache(self.expects)
        self._no_regress = cache(self.no_regress)

    # What a broken variant may change.

    def initial_views(self, exchange: ExchangeState) -> tuple[ZM, ...]:
        """The initial view of each worker: the capabilities of all workers, its own included."""
        return exchange.glob

    def may_receive(self, state: CombinedState, q: WorkerIndex) -> bool:
        """Whether q may take a broadcast out of its queue: once it has propagated what it began with."""
        return state.init[q]

    def propagated(self, conf: Configuration) -> Configuration | None:
        """The state after one propagate action, without work left; None if that takes too long."""
        return self.propagation.settle(conf)

    # Actions.

    def initial(self) -> Iterable[CombinedState]:
        """Every worker is about to propagate its view."""
        for exchange in self.exchange.initial():
            views = self.initial_views(exchange)
            pts, imp, work = zip(
                *(self.propagation.start(self._by_location(view)) for view in views), strict=True
            )
            yield CombinedState(*exchange._replace(glob=views), pts, imp, work, (False,) * len(views))

    def steps(self, state: CombinedState) -> Iterator[tuple[Label, CombinedState]]:
        """The steps of the exchange protocol, where receiving is also propagation's news, and propagate."""
        for label, exchange in self.exchange.steps(state.exchange()):
            if label[0] != "recv_upd":
                yield label, CombinedState(*exchange, state.pts, state.imp, state.work, state.init)
            elif self.may_receive(state, label[2]):
                yield label, self.recv_upd(state, exchange, *label[1:])
        for w in self.workers:
            if any(state.work[w]) or not state.init[w]:
                conf = self._propagated(state.prop(w))
                if conf is not None:
                    after = self._with_prop(state, w, conf)
                    yield ("propagate", w), after._replace(init=replaced(state.init, w, True))

    def recv_upd(
        self, state: CombinedState, exchange: ExchangeState, w: WorkerIndex, q: WorkerIndex
    ) -> CombinedState:
        """The action of the exchange protocol; q also changes the multiplicities that w sent."""
        after = CombinedState(*exchange, state.pts, state.imp, state.work, state.init)
        return self._with_prop(after, q, self._received(state.prop(q), state.msg[w][q][0]))

    def received(self, conf: Configuration, batch: ZM) -> Configuration:
        """One change_multiplicity per pointstamp; their order does not matter, so they go in the batch's."""
        for point, number in batch:
            conf = self.propagation.change_multiplicity(conf, *self.pointstamps[point], number)
        return conf

    # Properties, by the names of the paper and of the Isabelle theory.

    def invariants(self) -> Mapping[str, Invariant[CombinedState]]:
        """The properties of every reachable state; operators rely on SafeCombined."""
        return {
            "PtsEqGlob": self.pts_eq_glob,
            "Converged": lambda state: all(self._converged(state.prop(w)) for w in self.workers),
            "Safe": lambda state: all(self._safe(state.prop(w)) for w in self.initialised(state)),
            "ImplSafe": lambda state: all(self._impl_safe(state.prop(w)) for w in self.initialised(state)),
            "SafeCombined": self.safe_combined,
        }

    def step_properties(self) -> Mapping[str, StepProperty[CombinedState]]:
        """The properties of every reachable step."""
        return {"CMEnabled": self.cm_enabled, "FrontierNeverRegresses": self.frontier_never_regresses}

    def pts_eq_glob(self, state: CombinedState) -> bool:
        """PtsEqGlob: a worker propagates exactly what it has been told."""
        return all(state.pts[w] == self._by_location(state.glob[w]) for w in self.workers)

    def safe_combined(self, state: CombinedState) -> bool:
        """SafeCombined: wherever something that exists anywhere may arrive, each worker still expects it."""
        rec = self.exchange.rec(state.exchange())
        return all(self._expects(rec, state.imp[w]) for w in self.initialised(state))

    def cm_enabled(self, before: CombinedState, label: Label, after: CombinedState) -> bool:
        """CMEnabled: each change that a received batch makes is one that propagation expects.

        Judged as a step, not for the heads of the queues of initialised workers: every such head can be
        received, so this says the same, and it also sees a worker that receives too early.
        """
        if label[0] != "recv_upd":
            return True
        _, w, q = label
        return self._can_change(before.prop(q), before.msg[w][q][0])

    def frontier_never_regresses(self, before: CombinedState, label: Label, after: CombinedState) -> bool:
        """FrontierNeverRegresses: what can be read after a propagation is not behind what could be before."""
        return all(
            self._no_regress(before.imp[w], after.imp[w])
            for w in self.initialised(before)
            if before.imp[w] is not after.imp[w]
        )

    def initialised(self, state: CombinedState) -> Iterator[WorkerIndex]:
        """The workers whose frontiers may be read."""
        return (w for w in self.workers if state.init[w])

    # What must be reachable.

    def witnesses(self) -> Mapping[str, Invariant[CombinedState]]:
        """News that is received and not yet propagated, and, if the operations suffice, a proper end."""
        stale: dict[str, Invariant[CombinedState]] = {
            "StaleFrontier": lambda state: any(any(state.work[w]) for w in self.initialised(state))
        }
        finished: dict[str, Invariant[CombinedState]] = {
            "AllFinished": lambda state: all(state.init) and not any(map(any, state.imp))
        }
        return stale | finished if self.can_finish else stale

    # What must eventually happen, and who is trusted to act.

    def fairness(self) -> Mapping[str, Callable[[CombinedState, Label], bool]]:
        """Workers send what they keep, receive what was sent, and propagate what they received."""
        exchange = {**self.exchange.send_fairness(), **self.exchange.recv_fairness()}
        return {
            **{name: partial(_of_exchange, is_member) for name, is_member in exchange.items()},
            **{f"propagate({w})": partial(has_label, ("propagate", w)) for w in self.workers},
        }

    def liveness(self) -> Mapping[str, LeadsTo[CombinedState]]:
        """For each pointstamp: once nothing can result in it any more, every frontier passes it."""
        return {self.liveness_name(point): self._passes(point) for point in self.exchange.points}

    def liveness_name(self, point: Point) -> str:
        """The name of one liveness property, for example ``vacant(rec, x0) ~> passed(x0)``."""
        name = self.exchange.order.names[point]
        return f"vacant(rec, {name}) ~> passed({name})"

    def _passes(self, point: Point) -> LeadsTo[CombinedState]:
        location, time = self.pointstamps[point]
        less_equal = self.graph.times.less_equal

        def vacant(state: CombinedState) -> bool:
            return point in self.exchange.vacancies(self.exchange.rec(state.exchange()))

        def passed(state: CombinedState) -> bool:
            frontiers = (self.propagation.shown(state.imp[w])[location] for w in self.workers)
            return all(state.init) and not any(less_equal(f, time) for shown in frontiers for f in shown)

        return LeadsTo(vacant, passed)

    # Derived values.

    def by_location(self, view: ZM) -> PerLocation:
        """A view over pointstamps as one signed multiset of times per location."""
        parts: list[list[tuple[Time, int]]] = [[] for _ in self.graph.locations()]
        for point, number in view:
            location, time = self.pointstamps[point]
            parts[location].append((time, number))
        return tuple(zm(part) for part in parts)

    def can_change(self, conf: Configuration, batch: ZM) -> bool:
        """Return whether propagation allows a change at each pointstamp of the batch."""
        return all(self.propagation.may_change(conf, *self.pointstamps[point]) for point, _ in batch)

    def expects(self, rec: ZM, imp: PerLocation) -> bool:
        """Return whether the frontiers of imp have passed nothing that the occupancy rec may lead to."""
        return all(
            self.propagation.expected(self.propagation.reached(*self.pointstamps[point]), imp)
            for point, number in rec
            if number > 0
        )

    def no_regress(self, before: PerLocation, after: PerLocation) -> bool:
        """Return whether no frontier of after lies behind that of before."""
        shown = self.propagation.shown
        return self.propagation.no_regress(shown(before), shown(after))

    def _point(self, name: str, time: Time) -> Point:
        return self.pointstamps.index((self.graph.names.index(name), time))

    def _with_prop(self, state: CombinedState, w: WorkerIndex, conf: Configuration) -> CombinedState:
        return state._replace(
            pts=replaced(state.pts, w, conf.pts),
            imp=replaced(state.imp, w, conf.imp),
            work=replaced(state.work, w, conf.work),
        )

    # For a reader.

    def describe_label(self, label: Label) -> str:
        """Show a step as the exchange protocol does."""
        return self.exchange.describe_label(label)

    def describe_state(self, state: CombinedState) -> str:
        """Show the exchange part, then each worker's propagation and whether it may be read."""
        confs = (
            f"prop[{w}]{'' if init else ' (not initialised)'}: {self.propagation.show(state.prop(w))}"
            for w, init in enumerate(state.init)
        )
        return "  ".join([self.exchange.describe_state(state.exchange()), *confs])


def _of_exchange(
    is_member: Callable[[ExchangeState, Label], bool], state: CombinedState, label: Label
) -> bool:
    return is_member(state.exchange(), label)


def could_result_in_order(graph: Graph[Any, Any], pointstamps: Iterable[tuple[Location, Time]]) -> Poset:
    """Pointstamps, numbered as given, ordered by could-result-in and named ``x0``."""
    named = {f"{graph.names[location]}{time}": (location, time) for location, time in pointstamps}
    pairs = (
        (lower, upper)
        for lower, early in named.items()
        for upper, late in named.items()
        if early != late and graph.could_result_in(*early, *late)
    )
    return Poset(tuple(named), pairs)
