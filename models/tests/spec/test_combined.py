"""The combined tracker as an executable model.

Three families. *Counts* compare the whole state space with the published one: what is a step and what is
part of a state shows there. *Mutants* show that each property can fail, and by the shortest trace that is
known. *Hand cases* fix how pointstamps become points and how a batch becomes changes of multiplicity.
"""

from graphlib import CycleError, TopologicalSorter

import pytest

from pointstamp_models.catalogue.combined import ENTRY, ShowsEveryStep, for_ever, on_line, on_loop
from pointstamp_models.catalogue.propagation import line, loop, square_loop
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.combined import CombinedState, CombinedTracker, could_result_in_order

SHORTEST = {"M3.6": 5, "M3.7": 3, "M3.9": 5}


def instances() -> list[object]:
    return [
        pytest.param(instance, id=instance.name, marks=[pytest.mark.long] if instance.long else [])
        for instance in ENTRY.instances
    ]


def broken(mutant: Mutant, name: str) -> Violation:
    """How the mutant breaks the property of this name."""
    model = mutant.build()
    is_liveness = name in model.liveness()
    found = explore(model, properties=[] if is_liveness else [name], keep_edges=is_liveness)
    rejected = violation(found, properties=[name]) if is_liveness else found.violation
    assert rejected is not None
    return rejected


def labels(violation: Violation) -> list[str]:
    return [step.label for step in violation.trace[1:]]


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


def first(model: CombinedTracker) -> CombinedState:
    (state,) = model.initial()
    return state


def after(model: CombinedTracker, *wanted: str) -> CombinedState:
    """The state after the steps that show themselves like this, from the beginning."""
    state = first(model)
    for text in wanted:
        state = next(later for label, later in model.steps(state) if model.describe_label(label) == text)
    return state


# Counts.


@pytest.mark.parametrize("instance", instances())
def test_an_instance_has_the_published_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), keep_edges=instance.liveness)
    assert found.violation is None
    assert not found.missing_witnesses
    if instance.states is not None:
        assert (found.states, found.transitions) == (instance.states, instance.transitions)
    if instance.liveness:
        assert violation(found) is None


def test_every_property_of_the_papers_is_judged_under_its_name() -> None:
    model = on_line()
    assert list(model.invariants()) == ["PtsEqGlob", "Converged", "Safe", "ImplSafe", "SafeCombined"]
    assert list(model.step_properties()) == ["CMEnabled", "FrontierNeverRegresses"]
    assert list(model.liveness()) == [f"vacant(rec, {p}) ~> passed({p})" for p in ("x0", "x1", "y0", "y1")]


# Mutants.


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    assert broken(mutant, mutant.breaks).property == mutant.breaks


@pytest.mark.parametrize("identifier", SHORTEST)
def test_the_trace_to_a_violation_is_as_short_as_the_published_one(identifier: str) -> None:
    rejected = mutant(identifier)
    assert rejected.breaks is not None
    assert len(labels(broken(rejected, rejected.breaks))) == SHORTEST[identifier]


def test_a_view_that_counts_one_capability_for_two_workers_is_done_when_the_first_is() -> None:
    assert labels(broken(mutant("M3.9"), "SafeCombined")) == [
        "perf_op(0: drop {x0:1})",
        "send_upd(0, {x0})",
        "propagate(0)",
        "recv_upd(0, 0)",
        "propagate(0)",
    ]


def test_a_frontier_shown_in_the_middle_of_a_propagation_also_regresses() -> None:
    assert broken(mutant("M3.6"), "FrontierNeverRegresses").property == "FrontierNeverRegresses"


def test_on_a_line_the_first_single_step_already_shows_an_unknown_frontier_as_finished() -> None:
    found = explore(on_line(ShowsEveryStep), properties=["SafeCombined"])
    assert found.violation is not None
    assert len(labels(found.violation)) == 1


# Hand cases.


def test_pointstamps_of_the_loop_are_ordered_round_by_round() -> None:
    order = could_result_in_order(loop(), [(0, 0), (0, 1), (1, 0), (1, 1)])
    assert order.names == ("x0", "x1", "y0", "y1")
    x0, x1, y0, y1 = order.points()
    assert order.less(x0, y0)
    assert order.less(y0, x1)
    assert order.less(x1, y1)
    assert not order.less(x1, y0)


def test_pointstamps_at_incomparable_times_are_incomparable_at_one_location() -> None:
    order = could_result_in_order(square_loop(), [(0, (0, 1)), (0, (1, 0)), (1, (1, 1))])
    left, right, above = order.points()
    assert not order.less(left, right)
    assert not order.less(right, left)
    assert order.less(left, above)


def test_every_worker_begins_with_the_capabilities_of_all() -> None:
    state = first(on_line())
    assert state.glob == (((0, 2),), ((0, 2),))
    assert state.pts == ((((0, 2),), ()), (((0, 2),), ()))
    assert state.init == (False, False)


def test_a_worker_receives_only_after_its_first_propagation() -> None:
    model = on_line()
    sent = after(model, "perf_op(0: drop {x0:1})", "send_upd(0, {x0})")
    enabled = [model.describe_label(label) for label, _ in model.steps(sent)]
    assert enabled == ["propagate(0)", "propagate(1)"]
    ready = after(model, "perf_op(0: drop {x0:1})", "send_upd(0, {x0})", "propagate(1)")
    assert "recv_upd(0, 1)" in [model.describe_label(label) for label, _ in model.steps(ready)]


def test_the_whole_batch_is_sent_and_received_as_one() -> None:
    model = on_loop(1)
    state = after(
        model,
        "perf_op(0: drop {x0:1}, mint {x1:1}, send {y0:1} to 1)",
        "send_upd(0, {x0, x1, y0})",
        "propagate(1)",
        "recv_upd(0, 1)",
    )
    assert state.pts[1] == (((1, 1),), ((0, 1),))
    assert state.work[1] == (((0, -1), (1, 1)), ((0, 1),))
    assert model.propagation.shown(state.imp[1]) == (frozenset({0}), frozenset({0}))
    assert state.init == (False, True)


def test_a_propagation_leaves_no_work_and_is_not_offered_again() -> None:
    model = CombinedTracker(line(), ([("x", 0)],), times=(0, 1), ops=0)
    state = after(model, "propagate(0)")
    assert state.work == (((), ()),)
    assert list(model.steps(state)) == []


def test_a_frontier_before_the_first_propagation_would_read_as_finished() -> None:
    model = on_line()
    state = first(model)
    assert not model.expects(((0, 2),), state.imp[0])
    assert model.safe_combined(state)


def test_operations_that_need_not_end_come_back_to_where_they_were() -> None:
    found = explore(for_ever(), properties=[], keep_edges=True)
    successors: dict[int, set[int]] = {}
    for edge in found.edges:
        successors.setdefault(edge.origin, set()).add(edge.target)
    with pytest.raises(CycleError, match="nodes are in a cycle"):
        TopologicalSorter(successors).prepare()
