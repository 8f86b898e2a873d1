"""Local propagation before the judge: its instances, its broken variants, and the axioms of its graphs.

Changes are of +1 and -1. The published counts belong to these conventions: propagation is not cut off at
the last time at which changes are made, and a count stays between -1 and one more than the largest count
at the start.
"""

from functools import partial
from typing import Any, Final

from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp_models.spec.graph import Graph, Location, counters, vectors
from pointstamp_models.spec.multiset import minus, zm
from pointstamp_models.spec.propagating import Configuration, Counts, Summary, Time
from pointstamp_models.spec.propagation import LocalPropagation

Model = type[LocalPropagation]


def line() -> Graph[int, int]:
    """One edge x -> y that changes no time."""
    return Graph("xy", {("x", "y"): (0,)}, counters())


def loop(increment: int = 1, bound: int | None = None) -> Graph[int, int]:
    """An edge x -> y that changes no time, and one back that adds to it; above the bound nothing arrives."""
    return Graph("xy", {("x", "y"): (0,), ("y", "x"): (increment,)}, counters(bound))


def square_loop() -> Graph[tuple[int, ...], tuple[int, ...]]:
    """Edges x -> y and back, over pairs of counters; each way round advances one counter or the other."""
    return Graph("xy", {("x", "y"): ((0, 0),), ("y", "x"): ((0, 1), (1, 0))}, vectors(2))


def one_at_x(model: Model = LocalPropagation, graph: Graph[Any, Any] | None = None) -> LocalPropagation:
    """Times 0 to 2, one pointstamp at (x, 0), three changes."""
    return model(graph or loop(), {"x": ((0, 1),)}, times=range(3), changes=3, counts=range(-1, 3))


def two_at_x_one_at_y() -> LocalPropagation:
    """Times 0 and 1, two pointstamps at (x, 0) and one at (y, 0), four changes."""
    start: dict[str, Counts] = {"x": ((0, 2),), "y": ((0, 1),)}
    return LocalPropagation(loop(), start, times=range(2), changes=4, counts=range(-1, 4))


def bounded() -> LocalPropagation:
    """Like ``one_at_x``, but results_in returns None above time 2."""
    return one_at_x(graph=loop(bound=2))


def partially_ordered() -> LocalPropagation:
    """Incomparable times, and two summaries on one edge."""
    times = ((0, 0), (0, 1), (1, 0))
    start: dict[str, Counts] = {"x": (((0, 0), 1),)}
    return LocalPropagation(square_loop(), start, times=times, changes=2, counts=range(-1, 3))


class AnyOrder(LocalPropagation):
    """M3.1: propagate any worklist time, not only a minimal one."""

    def may_propagate(self, conf: Configuration, time: Time) -> bool:
        """Always."""
        return True


class PushesCounts(LocalPropagation):
    """M3.2: push every change of a count to the successors, not the change of the frontier."""

    def pushed(self, before: Counts, after: Counts) -> Counts:
        """All that changed."""
        return minus(after, before)


class IgnoresSummary(LocalPropagation):
    """M3.3: a time arrives over an edge as it was, whatever the summary says."""

    def arrival(self, time: Time, summary: Summary) -> Time | None:
        """The time itself."""
        return time


class AcceptsAnyGraph(LocalPropagation):
    """M3.4: the axioms are not checked, so that a cycle whose summary is zero is accepted."""

    def broken_axioms(self) -> list[str]:
        """Nothing is refused."""
        return []


class Unguarded(LocalPropagation):
    """M3.5: change_multiplicity at any time, expected or not."""

    def may_change(self, conf: Configuration, location: Location, time: Time) -> bool:
        """Always."""
        return True


class NonzeroFrontier(LocalPropagation):
    """M3.8: the frontier is taken over all counts that are not zero."""

    def frontier(self, counts: Counts) -> Counts:
        """The minimal times, those of negative count included."""
        return zm((time, 1) for time in self.graph.frontier((time, 1) for time, _ in counts))


def unguarded() -> LocalPropagation:
    """The line with one pointstamp at (x, 3); something at time 1 comes as a surprise."""
    return Unguarded(line(), {"x": ((3, 1),)}, times=(1, 3), changes=1, counts=range(-1, 3))


def zero_cycle() -> LocalPropagation:
    """A cycle that advances no time, in a model that does not mind."""
    return one_at_x(AcceptsAnyGraph, loop(increment=0))


def refuses_a_zero_cycle() -> Outcome:
    """The axioms name the cycle that stands still, for each time and each place to start; none for a loop."""
    broken = loop(increment=0).broken_axioms(range(3))
    try:
        one_at_x(graph=loop(increment=0))
    except ValueError:
        return Outcome(len(broken) == 6 and not loop().broken_axioms(range(3)), len(broken), broken[0])
    return Outcome(False, len(broken), "a graph with a cycle of summary zero was accepted")


ENTRY: Final = Entry(
    name="propagation",
    title="Local propagation (Brun et al. 2021, section 5)",
    instances=(
        Instance("loop, times 0..2, one at x, 3 changes", one_at_x, 1_708, 4_745, liveness=True),
        Instance("loop, times 0..1, two at x and one at y, 4 changes", two_at_x_one_at_y, 1_310, 4_524),
        Instance("loop, times 0..2, later ones never arrive, 3 changes", bounded),
        Instance("loop over pairs, two summaries on one edge, 2 changes", partially_ordered, liveness=True),
    ),
    mutants=(
        Mutant("M3.1", "propagate any worklist time", partial(one_at_x, AnyOrder), "Terminates"),
        Mutant(
            "M3.2", "push count changes, not frontier changes", partial(one_at_x, PushesCounts), "Terminates"
        ),
        Mutant("M3.3", "ignore the edge summary", partial(one_at_x, IgnoresSummary), "Converged"),
        Mutant("M3.4", "accept a cycle of summary zero", zero_cycle, "Converged"),
        Mutant("M3.4 (liveness)", "accept a cycle of summary zero", zero_cycle, "FrontierFollows(x, 0)"),
        Mutant("M3.5", "change multiplicities without the guard", unguarded, "Safe"),
        Mutant(
            "M3.5 (order)", "change multiplicities without the guard", unguarded, "FrontierNeverRegresses"
        ),
        Mutant("M3.8", "frontier over non-zero counts", partial(one_at_x, NonzeroFrontier), "Converged"),
    ),
    checks=(Check("the axioms refuse a cycle of summary zero", refuses_a_zero_cycle),),
)
