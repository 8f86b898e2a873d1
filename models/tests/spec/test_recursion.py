"""Stacks of calls as times.

- Agreement: the corrected procedure against exploration on 128 random graphs; the published one is right
  on those without cycles and wrong exactly where a cycle passes through a call. Only these find errors in
  the procedures.
- By hand: the smallest graph on which the published procedure is wrong, and what makes a base graph proper.
- The semantics: stacks as times of a dataflow graph satisfy Propositions 4 to 6. Only these find errors in
  the order of times.
"""

from random import Random

import pytest

from pointstamp_models.catalogue.recursion import (
    ENTRY,
    SMALLEST,
    base_graphs,
    first_difference,
    published_procedure_is_rejected,
    random_base_graph,
)
from pointstamp_models.exploring.entry import Check
from pointstamp_models.spec.could_result_in import CouldResultIn, is_transitive, messages_into_the_past
from pointstamp_models.spec.recursion import (
    IN,
    OUT,
    BaseGraph,
    decide,
    decide_as_published,
    explore_leads_to,
    recursive_graph,
    stack_times,
    stacks,
)

FACTORIAL = BaseGraph(
    ordinary=("x",),
    calls=("c",),
    edges=frozenset({(IN, OUT), (IN, "x"), ("x", "c"), ("c", OUT)}),
)
"""One recursive call and no cycle: compute, call, return."""


@pytest.mark.parametrize("check", ENTRY.checks, ids=lambda check: check.name)
def test_the_checks_of_the_catalogue_hold(check: Check) -> None:
    assert check.run().holds


def test_there_are_40_graphs_without_cycles_and_88_with_and_no_two_alike() -> None:
    without, with_cycle = base_graphs(40, 88)
    assert len({*without, *with_cycle}) == 128


def test_the_published_procedure_is_wrong_on_most_graphs_with_cycles() -> None:
    assert "differs from exploration on 82 of 88 graphs" in published_procedure_is_rejected().detail


def test_the_smallest_counterexample_pops_both_frames_and_calls_again() -> None:
    origin, target = (IN, ("c", "c")), (IN, ("c",))
    assert target in explore_leads_to(SMALLEST, origin, depth_max=4)
    assert decide(SMALLEST, origin, target)
    assert not decide_as_published(SMALLEST, origin, target)
    assert first_difference(SMALLEST, decide) is None


def test_without_a_cycle_a_call_never_leads_back_to_its_beginning() -> None:
    assert not decide(FACTORIAL, (IN, ("c", "c")), (IN, ("c",)))
    assert decide(FACTORIAL, (IN, ()), (IN, ("c", "c")))
    assert decide(FACTORIAL, ("x", ("c",)), (OUT, ()))
    assert not decide(FACTORIAL, (OUT, ()), ("x", ()))
    assert first_difference(FACTORIAL, decide_as_published) is None


def test_exploring_more_than_one_deeper_than_both_stacks_finds_nothing_more() -> None:
    for base in base_graphs(0, 20, seed=1)[1]:
        frames = {(p, stack) for p in base.nodes for stack in stacks(base, 2)}
        for frame in frames:
            shallow = explore_leads_to(base, frame, depth_max=3)
            assert shallow & frames == explore_leads_to(base, frame, depth_max=5) & frames


@pytest.mark.parametrize(
    ("edges", "complaint"),
    [
        ({(IN, OUT), (IN, "c"), ("c", OUT), ("c", IN)}, "in has an incoming edge"),
        ({(IN, OUT), (IN, "c")}, "not on a path"),
        ({(IN, "c"), ("c", OUT)}, "no computation ends"),
    ],
)
def test_an_improper_base_graph_is_told_why(edges: set[tuple[str, str]], complaint: str) -> None:
    assert complaint in (BaseGraph((), ("c",), frozenset(edges)).why_not_proper() or "")


def test_a_base_graph_with_an_ordinary_cycle_only_has_none_through_a_call() -> None:
    edges = {(IN, "x"), ("x", "y"), ("y", "x"), ("y", OUT), ("x", "c"), ("c", OUT)}
    base = BaseGraph(("x", "y"), ("c",), frozenset(edges))
    assert base.why_not_proper() is None
    assert base.on_cycles() == {"x", "y"}
    assert not base.has_cycle_through_call()
    assert first_difference(base, decide_as_published) is None


def test_stacks_that_lead_to_each_other_are_one_time() -> None:
    cyclic = stack_times(SMALLEST, 2)
    assert cyclic.time_of[IN, ("c",)] == cyclic.time_of[IN, ("c", "c")]
    assert cyclic.time_of[IN, ()] != cyclic.time_of[IN, ("c",)]
    acyclic = stack_times(FACTORIAL, 2)
    assert len({acyclic.time_of["x", stack] for stack in stacks(FACTORIAL, 2)}) == 3


def test_times_of_different_nodes_are_never_comparable() -> None:
    times = stack_times(FACTORIAL, 1)
    for (p, _), time in times.time_of.items():
        for (q, _), other in times.time_of.items():
            assert p == q or not times.order.less_equal(time, other)


def _small_graphs() -> list[BaseGraph]:
    random = Random(9)
    found = [FACTORIAL, SMALLEST]
    while len(found) < 8:
        base = random_base_graph(random)
        if base.why_not_proper() is None and len(base.calls) == 1:
            found.append(base)
    return found


@pytest.mark.parametrize("base", _small_graphs(), ids=range(8))
def test_could_result_in_of_a_recursive_graph_is_transitive_and_leads_to_contains_it(base: BaseGraph) -> None:
    graph, times = recursive_graph(base, 2)
    relation = CouldResultIn(graph)
    assert not messages_into_the_past(relation)
    assert is_transitive(relation)  # Proposition 6
    frames = list(times.time_of.items())
    for origin, time in frames:
        for target, other in frames:
            if relation.holds((origin[0], time), (target[0], other)):
                assert decide(base, origin, target)  # Proposition 4


@pytest.mark.parametrize("base", _small_graphs(), ids=range(8))
def test_a_time_of_another_node_leads_nowhere_else(base: BaseGraph) -> None:
    graph, times = recursive_graph(base, 1)
    relation = CouldResultIn(graph)
    owner = {time: p for (p, _), time in times.time_of.items()}
    for p in graph.nodes:
        for time in graph.times.points():
            for q, other in relation.above((p, time)):
                if q in graph.nodes and q != p:
                    assert (owner[time], owner[other]) == (p, q)  # Proposition 5
