"""Local propagation as an executable model.

Four families. *Counts* compare the whole state space with the published one: a guard that is a little too
weak or too strong shows there even if no property notices. *Mutants* show that each property can fail, and
by the shortest trace that is known. *Hand cases* follow single configurations that can be checked on paper,
those in the middle of a propagation above all. *Schedules* draw larger graphs, pointstamps and orders of
propagation than are explored, and compare the end with the frontier computed from scratch.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp_models.catalogue.propagation import ENTRY, NonzeroFrontier, line, loop, one_at_x, square_loop
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.graph import Graph, counters
from pointstamp_models.spec.multiset import zm
from pointstamp_models.spec.propagating import PROPAGATION_STEPS_MAX, Configuration, Counts, Propagation
from pointstamp_models.spec.propagation import LocalPropagation, configuration

X, Y = 0, 1
SHORTEST = {"M3.1": 2, "M3.2": 0, "M3.3": 3, "M3.4": 3, "M3.5": 3, "M3.5 (order)": 3, "M3.8": 4}

NESTED: Graph[tuple[int, ...], tuple[int, ...]] = Graph(
    "abcd",
    {
        ("a", "b"): [(0, 0)],
        ("b", "c"): [(0, 0)],
        ("c", "b"): [(0, 1)],
        ("c", "d"): [(0, 2), (1, 0)],
        ("d", "a"): [(1, 0)],
    },
    square_loop().times,
)
"""A loop that advances the second counter inside a loop that advances the first."""


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


def broken(mutant: Mutant) -> Violation:
    """How the mutant breaks its property."""
    assert mutant.breaks is not None
    model = mutant.build()
    is_liveness = mutant.breaks in model.liveness()
    found = explore(model, properties=[] if is_liveness else [mutant.breaks], keep_edges=is_liveness)
    rejected = violation(found, properties=[mutant.breaks]) if is_liveness else found.violation
    assert rejected is not None
    return rejected


def labels(violation: Violation) -> list[str]:
    return [step.label for step in violation.trace[1:]]


def on_line(x: Counts = (), y: Counts = ()) -> tuple[Propagation, Configuration]:
    propagation = Propagation(line(), range(4))
    return propagation, propagation.start((x, y))


# Counts.


@pytest.mark.parametrize("instance", ENTRY.instances, ids=lambda instance: instance.name)
def test_an_instance_has_the_published_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), keep_edges=instance.liveness)
    assert found.violation is None
    assert not found.missing_witnesses
    if instance.states is not None:
        assert (found.states, found.transitions) == (instance.states, instance.transitions)
    if instance.liveness:
        assert violation(found) is None


def test_every_property_of_the_papers_is_judged_under_its_name() -> None:
    model = one_at_x()
    assert list(model.invariants()) == [
        "ImpNonneg",
        "ImpPlusWorkNonneg",
        "WorkSum",
        "InvSafe",
        "Converged",
        "Terminates",
    ]
    assert list(model.step_properties()) == ["Safe", "ImplSafe", "FrontierNeverRegresses"]
    assert "WorkDrains" in model.liveness()


def test_no_schedule_of_an_instance_comes_near_the_bound_on_propagate_steps() -> None:
    model = one_at_x()
    found = explore(model, properties=[])
    longest = [model.longest_propagation(configuration(found.state(index))) for index in range(found.states)]
    assert max(steps for steps in longest if steps is not None) == 9
    assert None not in longest
    assert PROPAGATION_STEPS_MAX > 10 * 9


def test_safe_alone_does_not_survive_every_guarded_change() -> None:
    """Which is why Safe and ImplSafe are judged together."""
    model = one_at_x()
    found = explore(model, properties=[], keep_edges=True)
    changes = [
        (configuration(found.state(edge.origin)), configuration(found.state(edge.target)))
        for edge in found.edges
        if edge.label[0] == "change_multiplicity"
    ]
    lost = [before for before, after in changes if model.safe(before) and not model.safe(after)]
    assert lost
    assert not any(model.impl_safe(before) for before in lost)


# Mutants.


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    assert broken(mutant).property == mutant.breaks


@pytest.mark.parametrize("identifier", SHORTEST)
def test_the_trace_to_a_violation_is_as_short_as_the_published_one(identifier: str) -> None:
    assert len(labels(broken(mutant(identifier)))) == SHORTEST[identifier]


@pytest.mark.parametrize("identifier", ["M3.3", "M3.4"])
def test_a_time_that_comes_back_unchanged_cancels_its_own_removal(identifier: str) -> None:
    assert labels(broken(mutant(identifier))) == [
        "propagate(x, 0)",
        "change_multiplicity(x, 0, -1)",
        "propagate(y, 0)",
    ]


def test_a_divergent_mutant_breaks_no_invariant_but_termination() -> None:
    """Invariants alone would accept it, so termination is judged for itself."""
    model = mutant("M3.1").build()
    others = [name for name in (*model.invariants(), *model.step_properties()) if name != "Terminates"]
    found = explore(model, properties=others, limit=3_000)
    assert found.violation is None
    assert found.states >= 3_000


def test_a_change_without_the_guard_moves_the_frontier_back() -> None:
    assert labels(broken(mutant("M3.5 (order)"))) == [
        "propagate(x, 3)",
        "propagate(y, 3)",
        "change_multiplicity(x, 1, 1)",
    ]


def test_a_model_refuses_a_graph_that_breaks_the_axioms() -> None:
    with pytest.raises(ValueError, match="cycle x -> y -> x with total 0 does not advance time 0"):
        one_at_x(graph=loop(increment=0))


@pytest.mark.parametrize("check", ENTRY.checks, ids=lambda check: check.name)
def test_a_check_holds(check: Any) -> None:  # noqa: ANN401 - whatever the entry lists
    assert check.run().holds


# Hand cases.


def test_at_the_start_only_the_frontier_of_the_pointstamps_is_to_be_propagated() -> None:
    _, conf = on_line(x=((0, 2), (1, 1)), y=((0, -1), (2, 1)))
    assert conf.work == (((0, 1),), ((2, 1),))
    assert conf.imp == ((), ())


def test_nothing_may_change_before_the_first_propagation() -> None:
    propagation, conf = on_line(x=((0, 1),))
    assert not propagation.may_change(conf, X, 0)
    settled = propagation.settle(conf)
    assert settled is not None
    assert propagation.may_change(settled, Y, 3)


def test_a_change_that_leaves_the_frontier_alone_makes_no_work() -> None:
    propagation, conf = on_line(x=((0, 1),))
    assert propagation.change_multiplicity(conf, X, 2, 1).work == conf.work
    assert propagation.change_multiplicity(conf, X, 0, 1).work == conf.work


def test_only_the_earliest_times_of_all_worklists_may_be_propagated() -> None:
    propagation, conf = on_line(x=((1, 1),), y=((0, 1),))
    assert list(propagation.propagations(conf)) == [(Y, 0)]


def test_incomparable_times_may_be_propagated_in_any_order() -> None:
    propagation = Propagation(square_loop(), [(0, 1), (1, 0)])
    conf = propagation.start(((((0, 1), 1), ((1, 0), 1)), ()))
    assert list(propagation.propagations(conf)) == [(X, (0, 1)), (X, (1, 0))]


def test_a_frontier_in_the_middle_of_a_propagation_is_empty_though_something_is_there() -> None:
    alone = Propagation(Graph("x", {}, counters()), range(2))
    conf = alone.settle(alone.start((((0, 1),),)))
    assert conf is not None
    moved = alone.change_multiplicity(alone.change_multiplicity(conf, X, 1, 1), X, 0, -1)
    assert moved.work == (((0, -1), (1, 1)),)
    assert alone.safe(moved)
    midway = alone.propagate(moved, X, 0)
    assert alone.shown(midway.imp) == (frozenset(),)
    assert not alone.safe(midway)
    assert alone.inv_safe(midway)
    assert alone.converged(midway)


def test_work_is_vacant_only_below_everything_it_can_lead_to() -> None:
    propagation = Propagation(loop(), range(3))
    conf = Configuration(((), ()), ((), ()), ((), ((1, -1),)))
    assert propagation.work_vacant(conf, 0)
    assert not propagation.work_vacant(conf, 1)


def test_a_frontier_over_nonzero_counts_shows_what_is_not_there() -> None:
    counts = ((0, -1), (1, 1))
    assert one_at_x().frontier(counts) == ((1, 1),)
    assert one_at_x(NonzeroFrontier).frontier(counts) == ((0, 1),)


@pytest.mark.parametrize(
    ("name", "conf"),
    [
        ("ImpNonneg", Configuration(((), ()), (((0, -1),), ()), (((0, 1),), ()))),
        ("ImpPlusWorkNonneg", Configuration(((), ()), ((), ()), (((0, -1),), ()))),
        ("WorkSum", Configuration((((0, 1),), ()), ((), ()), ((), ()))),
        ("InvSafe", Configuration((((0, 1),), ()), (((0, 1),), ()), ((), ()))),
        ("Converged", Configuration(((), ()), (((0, 1),), ((0, 1),)), ((), ()))),
    ],
)
def test_an_invariant_sees_a_configuration_that_breaks_it(name: str, conf: Configuration) -> None:
    model: LocalPropagation = one_at_x()
    (start,) = model.initial()
    pts, imp, work = conf
    assert not model.invariants()[name](start._replace(pts=pts, imp=imp, work=work))


# Schedules.


@st.composite
def starts(draw: st.DrawFn) -> tuple[Propagation, Configuration]:
    """A graph of the four, and a few counts of either sign on it."""
    graph: Graph[Any, Any] = draw(st.sampled_from([line(), loop(), square_loop(), NESTED]))
    times: list[Any] = [0, 1, 2] if graph.times.zero == 0 else [(0, 0), (0, 1), (1, 0), (1, 1)]
    counts = st.lists(st.tuples(st.sampled_from(times), st.integers(-1, 2)), max_size=3).map(zm)
    propagation = Propagation(graph, times)
    return propagation, propagation.start(tuple(draw(counts) for _ in graph.names))


def settled_by(propagation: Propagation, conf: Configuration, data: st.DataObject) -> Configuration:
    """The end of one drawn schedule."""
    for _ in range(PROPAGATION_STEPS_MAX):
        choices = list(propagation.propagations(conf))
        if not choices:
            return conf
        conf = propagation.propagate(conf, *data.draw(st.sampled_from(choices)))
        assert propagation.imp_nonneg(conf)
        assert propagation.work_sum(conf)
        assert propagation.converged(conf)
    raise AssertionError("propagation does not end")


@given(starts(), st.data())
def test_every_schedule_ends_in_the_frontiers_computed_from_scratch(
    start: tuple[Propagation, Configuration], data: st.DataObject
) -> None:
    propagation, conf = start
    end = settled_by(propagation, conf, data)
    graph = propagation.graph
    assert propagation.shown(end.imp) == tuple(
        graph.implied_frontier(end.pts, location) for location in graph.locations()
    )
    assert end == propagation.settle(conf)


@given(starts(), st.data())
def test_guarded_changes_in_either_order_lead_to_the_same_configuration(
    start: tuple[Propagation, Configuration], data: st.DataObject
) -> None:
    propagation, conf = start
    change = st.tuples(
        st.sampled_from(propagation.graph.locations()),
        st.sampled_from(propagation.times),
        st.sampled_from([-1, 1]),
    )
    one, other = data.draw(change), data.draw(change)
    there = propagation.change_multiplicity(propagation.change_multiplicity(conf, *one), *other)
    back = propagation.change_multiplicity(propagation.change_multiplicity(conf, *other), *one)
    assert there == back


@given(starts(), st.data())
def test_after_guarded_changes_frontiers_are_safe_at_once_and_advance_when_propagated(
    start: tuple[Propagation, Configuration], data: st.DataObject
) -> None:
    propagation, conf = start
    before = settled_by(propagation, conf, data)
    places = [
        (location, time)
        for location in propagation.graph.locations()
        for time in propagation.times
        if propagation.may_change(before, location, time)
    ]
    after = before
    if places:
        change = st.tuples(st.sampled_from(places), st.sampled_from([-1, 1]))
        for (location, time), number in data.draw(st.lists(change, max_size=4)):
            after = propagation.change_multiplicity(after, location, time, number)
            assert propagation.safe(after)
            assert propagation.impl_safe(after)
    end = settled_by(propagation, after, data)
    assert propagation.no_regress(propagation.shown(before.imp), propagation.shown(end.imp))
