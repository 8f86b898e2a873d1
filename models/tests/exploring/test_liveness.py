"""A liveness property holds exactly if no fair run breaks it, and a run that breaks it is shown as it is.

Families, and what only each can find:
- three machines known from every textbook (a counter that a fair scheduler must advance, an adversary that
  runs in circles, a state in which everything ends): the meaning of weak fairness and of stuttering;
- random graphs with random fairness against a brute force that shares no code (it walks from every state and
  remembers which classes the walk has settled, and knows no components): a component missed or wrongly fair;
- the lassos found on those graphs, replayed step by step: a trace that is no run, no cycle, or not fair;
- random graphs cut into components against plain reachability: errors of the component search alone.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import InternalError
from pointstamp_models.exploring import liveness
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.spec.model import Label, LeadsTo, Model


class Place(NamedTuple):
    at: int


Arrow = tuple[int, str, int]
Group = tuple[str, ...]
"""The labels of one fairness class."""


def is_of(group: Group, state: Place, label: Label) -> bool:
    return label[0] in group


class Graph(Model[Place]):
    """A labelled graph from place 0; one fairness class for each group of labels."""

    name = "graph"
    state_type = Place

    def __init__(
        self,
        arrows: frozenset[Arrow],
        fair: tuple[Group, ...],
        triggers: frozenset[int] = frozenset({0}),
        goals: frozenset[int] = frozenset(),
    ) -> None:
        self.arrows = sorted(arrows)
        self.fair = fair
        self.triggers = triggers
        self.goals = goals

    def initial(self) -> list[Place]:
        return [Place(0)]

    def steps(self, state: Place) -> list[tuple[Label, Place]]:
        return [((letter,), Place(b)) for a, letter, b in self.arrows if a == state.at]

    def fairness(self) -> Mapping[str, Callable[[Place, Label], bool]]:
        return {f"WF({group})": partial(is_of, group) for group in self.fair}

    def liveness(self) -> Mapping[str, LeadsTo[Place]]:
        return {"Arrives": LeadsTo(lambda s: s.at in self.triggers, lambda s: s.at in self.goals)}

    def describe_label(self, label: Label) -> str:
        return str(label[0])

    def describe_state(self, state: Place) -> str:
        return str(state.at)


def judged(model: Graph) -> Violation | None:
    return liveness.violation(explore(model, properties=[], keep_edges=True))


def run_of(violation: Violation) -> list[tuple[str, int]]:
    return [(step.label, int(step.state)) for step in violation.trace]


COUNTING = frozenset({(0, "up", 1), (1, "up", 2), (2, "up", 3)})


def test_a_fair_counter_reaches_its_top() -> None:
    assert judged(Graph(COUNTING, fair=(("up",),), goals=frozenset({3}))) is None


def test_a_counter_without_fairness_may_stay_where_it_begins() -> None:
    violation = judged(Graph(COUNTING, fair=(), goals=frozenset({3})))
    assert violation is not None
    assert (run_of(violation), violation.loops_to) == ([("init", 0)], 0)


def test_an_adversary_that_takes_a_step_of_the_class_for_ever_never_arrives() -> None:
    # Fairness to "some step" is kept by going round, although the step that arrives is always enabled.
    round_and_round = frozenset({(0, "a", 1), (1, "b", 0), (0, "leave", 2), (1, "leave", 2)})
    violation = judged(Graph(round_and_round, fair=(("a", "b", "leave"),), goals=frozenset({2})))
    assert violation is not None
    assert violation.loops_to is not None
    assert judged(Graph(round_and_round, fair=(("leave",),), goals=frozenset({2}))) is None


def test_weak_fairness_is_kept_by_disabling_the_step_again_and_again() -> None:
    flicker = frozenset({(0, "a", 1), (1, "b", 0), (0, "leave", 2)})
    violation = judged(Graph(flicker, fair=(("leave",), ("a",), ("b",)), goals=frozenset({2})))
    assert violation is not None
    assert (run_of(violation), violation.loops_to) == ([("init", 0), ("a", 1), ("b", 0)], 0)


def test_an_end_before_the_goal_is_a_violation_under_any_fairness() -> None:
    dead_end = frozenset({(0, "a", 1), (0, "b", 2)})
    violation = judged(Graph(dead_end, fair=(("a",), ("b",)), goals=frozenset({2})))
    assert violation is not None
    assert (run_of(violation), violation.loops_to) == ([("init", 0), ("a", 1)], 1)


def test_a_cycle_goes_round_until_every_class_has_had_its_step() -> None:
    # Both classes are enabled everywhere, and no simple cycle has a step of each.
    eight = {(0, "a", 1), (1, "back", 0), (0, "b", 2), (2, "back", 0)}
    leaving = {(place, letter, 3) for place in (1, 2) for letter in "ab"}
    violation = judged(Graph(frozenset(eight | leaving), fair=(("a",), ("b",)), goals=frozenset({3})))
    assert violation is not None
    assert violation.loops_to == 0
    assert [label for label, _ in run_of(violation)] == ["init", "a", "back", "b", "back"]


def test_the_nearest_place_to_stay_is_shown() -> None:
    far_and_near = frozenset({(0, "a", 1), (1, "a", 2), (2, "a", 3), (0, "z", 4)})
    violation = judged(Graph(far_and_near, fair=(("a", "z"),)))
    assert violation is not None
    assert run_of(violation) == [("init", 0), ("z", 4)]


def test_nothing_is_owed_before_the_trigger_or_where_trigger_and_goal_hold_together() -> None:
    waits = frozenset({(0, "a", 1)})
    assert judged(Graph(waits, fair=(), triggers=frozenset(), goals=frozenset())) is None
    assert judged(Graph(waits, fair=(), triggers=frozenset({1}), goals=frozenset({1}))) is None


def test_the_goal_settles_what_was_owed_although_it_does_not_last() -> None:
    passes = frozenset({(0, "a", 1), (1, "a", 2)})
    assert judged(Graph(passes, fair=(("a",),), goals=frozenset({1}))) is None
    again = judged(Graph(passes, fair=(("a",),), triggers=frozenset({0, 2}), goals=frozenset({1})))
    assert again is not None
    assert run_of(again)[-1] == ("a", 2)


def test_an_incomplete_exploration_is_refused() -> None:
    model = Graph(COUNTING, fair=(("up",),))
    with pytest.raises(InternalError, match="complete exploration"):
        liveness.violation(explore(model, properties=[], keep_edges=True, limit=2))


def test_an_exploration_without_its_edges_is_refused() -> None:
    with pytest.raises(InternalError, match="keep_edges=True"):
        liveness.violation(explore(Graph(COUNTING, fair=(("up",),)), properties=[]))


def test_a_liveness_property_that_the_model_does_not_have_is_refused() -> None:
    found = explore(Graph(COUNTING, fair=()), properties=[], keep_edges=True)
    with pytest.raises(InternalError, match="'Arives'; it has Arrives"):
        liveness.violation(found, properties=["Arives"])


def test_deep_graphs_do_not_exhaust_the_stack() -> None:
    length = 50_000
    parts = liveness.components(range(length), lambda place: iter([(place + 1) % length]))
    assert [len(part) for part in parts] == [length]


places = st.integers(0, 3)
arrow_sets = st.frozensets(st.tuples(places, st.sampled_from("abc"), places), max_size=10)
GROUPS: list[Group] = [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]
graphs = st.builds(
    Graph,
    arrow_sets,
    st.lists(st.sampled_from(GROUPS), max_size=3, unique=True).map(tuple),
    st.frozensets(places, min_size=1),
    st.frozensets(places, max_size=2),
)


def can_break(model: Graph) -> bool:
    """Brute force: can a fair run stay for ever outside the goals after a trigger?

    For every place, walk on from it outside the goals and remember the classes settled on the way; the run
    exists if a walk comes back to the place with all of them settled. Standing still is a walk too.
    """
    reachable, owing = {0}, set[int]()
    for _ in model.arrows:
        reachable |= {b for a, _, b in model.arrows if a in reachable}
    for _ in range(len(model.arrows) + 1):
        owing |= {p for p in reachable & model.triggers if p not in model.goals}
        owing |= {b for a, _, b in model.arrows if a in owing and b not in model.goals}

    def disabled_at(place: int) -> frozenset[Group]:
        letters = {letter for a, letter, _ in model.arrows if a == place}
        return frozenset(group for group in model.fair if not letters & set(group))

    for home in owing:
        walks = {(home, disabled_at(home))}
        while True:
            longer = {
                (b, settled | disabled_at(b) | {group for group in model.fair if letter in group})
                for place, settled in walks
                for a, letter, b in model.arrows
                if a == place and b in owing
            }
            if longer <= walks:
                break
            walks |= longer
        if (home, frozenset(model.fair)) in walks:
            return True
    return False


@given(graphs)
def test_random_graphs_are_judged_as_by_brute_force(model: Graph) -> None:
    assert (judged(model) is not None) == can_break(model)


@given(graphs)
def test_a_lasso_is_a_fair_run_that_owes_the_goal_for_ever(model: Graph) -> None:
    violation = judged(model)
    if violation is None:
        return
    run = run_of(violation)
    assert run[0] == ("init", 0)
    assert all((a, letter, b) in model.arrows for (_, a), (letter, b) in pairwise(run))
    loops_to = violation.loops_to
    assert loops_to is not None
    assert run[-1][1] == run[loops_to][1]
    visited = [place for _, place in run]
    last_goal = max((i for i, place in enumerate(visited) if place in model.goals), default=-1)
    assert last_goal < loops_to
    assert model.triggers & set(visited[last_goal + 1 : loops_to + 1])
    taken = {letter for letter, _ in run[loops_to + 1 :]}
    for group in model.fair:
        somewhere_disabled = any(
            not {letter for a, letter, _ in model.arrows if a == place} & set(group)
            for place in visited[loops_to:]
        )
        assert taken & set(group) or somewhere_disabled


@given(st.frozensets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_two_places_share_a_component_exactly_if_each_reaches_the_other(
    arrows: frozenset[tuple[int, int]],
) -> None:
    reaches = {(place, place) for place in range(8)} | set(arrows)
    for middle in range(8):
        reaches |= {(a, c) for a, b in reaches if b == middle for m, c in reaches if m == middle}
    parts = list(
        liveness.components(range(8), lambda place: iter(sorted(b for a, b in arrows if a == place)))
    )
    assert sorted(place for part in parts for place in part) == list(range(8))
    together = {(a, b) for part in parts for a in part for b in part}
    assert together == {(a, b) for a, b in reaches if (b, a) in reaches}
