"""The model of local propagation: every interleaving of changes with propagate steps, on one worker.

Brun et al. (2021), section 5 (Isabelle theory Propagate); the rules and the predicates stand in
``propagating``. Here are the state with its bound on changes, and what must hold when: the invariants in
every state; Safe and ImplSafe, which are about frontiers that may be read, when no work is left and after
each guarded change made from there on.

Propagate steps are taken one by one, so the states in between, which no operator ever sees, are explored
as well. Other workers do not occur: what they broadcast arrives here as arbitrary guarded changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pointstamp_models.spec.graph import Graph, Location
from pointstamp_models.spec.model import Invariant, Label, LeadsTo, Model, StepProperty
from pointstamp_models.spec.multiset import count
from pointstamp_models.spec.propagating import Configuration, Counts, PerLocation, Propagation, Time


class PropagationState(NamedTuple):
    """A configuration, and how many changes may still be made."""

    pts: PerLocation
    imp: PerLocation
    work: PerLocation
    changes: int


class LocalPropagation(Propagation, Model[PropagationState]):
    """One worker's propagation under arbitrary guarded changes of +1 and -1, interleaved with its steps.

    Changes happen at the given times, and only where they leave the count within ``counts``; pointstamps
    may be negative, because a worker may hear of a consumption before it hears of the production.
    Propagation itself is not bounded: it may reach times at which no change is made.
    """

    name = "propagation"
    state_type = PropagationState

    def __init__(
        self,
        graph: Graph[Any, Any],
        start: Mapping[str, Counts],
        *,
        times: Iterable[Time],
        changes: int,
        counts: range,
    ) -> None:
        super().__init__(graph, times)
        self.pts = tuple(start.get(name, ()) for name in graph.names)
        self.changes = changes
        self.counts = counts

    def initial(self) -> Iterable[PropagationState]:
        """The given pointstamps, all of them still to be propagated."""
        yield PropagationState(*self.start(self.pts), self.changes)

    def steps(self, state: PropagationState) -> Iterator[tuple[Label, PropagationState]]:
        """Every guarded change while some may still be made, and every propagate step."""
        conf = configuration(state)
        if state.changes > 0:
            for location, time, number in self._changes(conf):
                changed = self.change_multiplicity(conf, location, time, number)
                after = PropagationState(*changed, state.changes - 1)
                yield ("change_multiplicity", location, time, number), after
        for location, time in self.propagations(conf):
            after = PropagationState(*self.propagate(conf, location, time), state.changes)
            yield ("propagate", location, time), after

    def _changes(self, conf: Configuration) -> Iterator[tuple[Location, Time, int]]:
        for location in self.graph.locations():
            for time in self.times:
                if self.may_change(conf, location, time):
                    present = count(conf.pts[location], time)
                    yield from ((location, time, n) for n in (1, -1) if present + n in self.counts)

    def may_stop(self, state: PropagationState) -> bool:
        """Only when no work is left; a worklist always has a minimal time to propagate."""
        return not any(state.work)

    def invariants(self) -> Mapping[str, Invariant[PropagationState]]:
        """The properties of every state, also in the middle of a propagation."""
        return {
            "ImpNonneg": lambda state: self.imp_nonneg(configuration(state)),
            "ImpPlusWorkNonneg": lambda state: self.imp_plus_work_nonneg(configuration(state)),
            "WorkSum": lambda state: self.work_sum(configuration(state)),
            "InvSafe": lambda state: self.inv_safe(configuration(state)),
            "Converged": lambda state: self.converged(configuration(state)),
            "Terminates": lambda state: self.terminates(configuration(state)),
        }

    def step_properties(self) -> Mapping[str, StepProperty[PropagationState]]:
        """The properties of every step after which frontiers may be read."""
        return {
            "Safe": self._safe_after,
            "ImplSafe": self._impl_safe_after,
            "FrontierNeverRegresses": self._never_regresses,
        }

    def _may_be_read(self, before: PropagationState, label: Label, after: PropagationState) -> bool:
        """Whether a step leads to where frontiers may be read: no work is left, or only changes were made.

        Safe alone does not survive a change, Safe and ImplSafe together do: the guard finds an element of
        the frontier here, and ImplSafe finds those that it leads to elsewhere.
        """
        if not any(after.work):
            return True
        conf = configuration(before)
        return label[0] == "change_multiplicity" and self.safe(conf) and self.impl_safe(conf)

    def _safe_after(self, before: PropagationState, label: Label, after: PropagationState) -> bool:
        return not self._may_be_read(before, label, after) or self.safe(configuration(after))

    def _impl_safe_after(self, before: PropagationState, label: Label, after: PropagationState) -> bool:
        return not self._may_be_read(before, label, after) or self.impl_safe(configuration(after))

    def _never_regresses(self, before: PropagationState, label: Label, after: PropagationState) -> bool:
        """A change made when no work was left moves no frontier backwards, once it is propagated."""
        if label[0] != "change_multiplicity" or any(before.work):
            return True
        settled = self.settle(configuration(after))
        return settled is not None and self.no_regress(self.shown(before.imp), self.shown(settled.imp))

    def witnesses(self) -> Mapping[str, Invariant[PropagationState]]:
        """States without which the properties would say little."""
        return {
            "NegativeCount": lambda state: any(n < 0 for part in state.pts for _, n in part),
            "AllGone": lambda state: not any(state.pts + state.imp + state.work),
            "UnsafeMidway": lambda state: not self.safe(configuration(state)),
        }

    def fairness(self) -> Mapping[str, Callable[[PropagationState, Label], bool]]:
        """Some propagate step is taken if one is enabled forever; changes need not happen."""
        return {"propagate": lambda state, label: label[0] == "propagate"}

    def liveness(self) -> Mapping[str, LeadsTo[PropagationState]]:
        """Work drains, and a frontier follows where the pointstamps that held it are gone for good."""
        followed = {
            f"FrontierFollows({self.graph.names[location]}, {time})": self._follows(location, time)
            for location in self.graph.locations()
            for time in self.times
        }
        return {"WorkDrains": LeadsTo(lambda _: True, lambda state: not any(state.work)), **followed}

    def _follows(self, location: Location, time: Time) -> LeadsTo[PropagationState]:
        less_equal = self.graph.times.less_equal

        def unreachable(state: PropagationState) -> bool:
            return not any(less_equal(element, time) for element in self._implied(state.pts)[location])

        def passed(state: PropagationState) -> bool:
            return not self._some_at_or_below(state.imp[location], time)

        return LeadsTo(unreachable, lambda state: passed(state) or not unreachable(state))

    def describe_label(self, label: Label) -> str:
        """Show a step with the name of its location: ``propagate(x, 0)``."""
        action, *arguments = label
        if arguments:
            arguments[0] = self.graph.names[arguments[0]]
        return super().describe_label((action, *arguments))

    def describe_state(self, state: PropagationState) -> str:
        """Show the configuration with the names of its locations."""
        return f"{self.show(configuration(state))}  changes left = {state.changes}"


def configuration(state: PropagationState) -> Configuration:
    """The state without the bound on changes."""
    return Configuration(state.pts, state.imp, state.work)
