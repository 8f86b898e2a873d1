"""The explorer reaches what is reachable, judges all of it, and shows a shortest way to what is wrong.

Families, and what only each can find:
- claims on a bounded counter, small enough to know every number by heart: wrong counts, a property or a
  witness that is not looked at, limits, traces;
- random graphs against a search that shares no code with the explorer (states as a growing set, distances by
  repeated relaxation): states lost or counted twice, a trace that is not shortest or no run at all;
- the table of states alone, against a plain dictionary: states confused with each other.
"""

import doctest
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import InternalError
from pointstamp_models.exploring import states
from pointstamp_models.exploring.explorer import (
    DEADLOCK,
    REPORT_EVERY_STATES,
    Progress,
    TraceStep,
    Violation,
    explore,
)
from pointstamp_models.exploring.states import StateTable
from pointstamp_models.spec.model import Label, Model


class Count(NamedTuple):
    value: int


class Counter(Model[Count]):
    """Counts up from 0 to the top by one or by two, and stops there."""

    name = "counter"
    state_type = Count

    def __init__(self, top: int = 5) -> None:
        self.top = top

    def initial(self) -> list[Count]:
        return [Count(0)]

    def steps(self, state: Count) -> list[tuple[Label, Count]]:
        return [
            (("add", number), Count(state.value + number))
            for number in (1, 2)
            if state.value + number <= self.top
        ]

    def invariants(self) -> Mapping[str, Callable[[Count], bool]]:
        return {"Small": lambda state: state.value < 4, "NotThree": lambda state: state.value != 3}

    def step_properties(self) -> Mapping[str, Callable[[Count, Label, Count], bool]]:
        return {"NoJumpFromTwo": lambda before, label, after: not (before.value == 2 and label[1] == 2)}

    def witnesses(self) -> Mapping[str, Callable[[Count], bool]]:
        return {
            "ReachesTop": lambda state: state.value == self.top,
            "ReachesSky": lambda state: state.value > self.top,
        }

    def step_witnesses(self) -> Mapping[str, Callable[[Count, Label, Count], bool]]:
        return {
            "Jumps": lambda before, label, after: label[1] == 2,
            "FallsBack": lambda before, label, after: after < before,
        }

    def may_stop(self, state: Count) -> bool:
        return state.value > 100


def test_every_state_and_every_labelled_step_is_counted() -> None:
    found = explore(Counter(5), properties=[])
    assert (found.states, found.transitions, found.depth) == (6, 5 + 4, 3)
    assert found.complete
    assert found.violation is None


def test_the_first_violation_comes_with_a_shortest_trace() -> None:
    found = explore(Counter(5), properties=["NotThree"])
    assert found.violation == Violation(
        "NotThree",
        (TraceStep("init", "value = 0"), TraceStep("add(1)", "value = 1"), TraceStep("add(2)", "value = 3")),
    )
    assert not found.complete


def test_only_the_properties_asked_for_are_judged() -> None:
    broken = {
        name: explore(Counter(5), properties=[name]).violation
        for name in ("Small", "NotThree", "NoJumpFromTwo", DEADLOCK)
    }
    steps = {name: violation.steps() for name, violation in broken.items() if violation}
    assert steps == {"Small": 2, "NotThree": 2, "NoJumpFromTwo": 2, DEADLOCK: 3}


def test_without_a_choice_everything_is_judged_deadlock_included() -> None:
    violation = explore(Counter(1)).violation
    assert violation is not None
    assert violation.property == DEADLOCK
    assert violation.trace[-1].state == "value = 1"


def test_a_property_that_the_model_does_not_have_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(InternalError, match=r"no property 'Smal'; it has .*Small"):
        explore(Counter(), properties=["Smal"])


def test_witnesses_that_nothing_shows_are_missing() -> None:
    found = explore(Counter(5), properties=[])
    assert found.witnessed == {"ReachesTop", "Jumps"}
    assert found.missing_witnesses == {"ReachesSky", "FallsBack"}


def test_an_initial_state_can_be_the_violation() -> None:
    class BeginsWrong(Counter):
        def initial(self) -> list[Count]:
            return [Count(0), Count(3)]

    violation = explore(BeginsWrong(5), properties=["NotThree"]).violation
    assert violation is not None
    assert str(violation).splitlines() == [
        "NotThree is broken in an initial state:",
        "    0 init",
        "      value = 3",
    ]


def test_a_limit_stops_the_search_and_leaves_it_incomplete() -> None:
    found = explore(Counter(50), properties=[], limit=10)
    assert 10 <= found.states < 13
    assert not found.complete


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    found = explore(Counter(5), properties=[], limit=7)
    assert found.complete
    assert found.states == 6


def test_edges_are_kept_in_the_order_of_their_origins_if_asked_for() -> None:
    found = explore(Counter(3), properties=[], keep_edges=True)
    steps = [(found.state(e.origin).value, e.label[1], found.state(e.target).value) for e in found.edges]
    assert steps == [(0, 1, 1), (0, 2, 2), (1, 1, 2), (1, 2, 3), (2, 1, 3)]
    assert explore(Counter(3), properties=[]).edges == []


def test_progress_is_reported_while_the_search_runs() -> None:
    heard: list[Progress] = []
    explore(Counter(3 * REPORT_EVERY_STATES), properties=[], report=heard.append)
    assert [progress.depth for progress in heard] == sorted(progress.depth for progress in heard)
    assert len(heard) == 3
    assert heard[-1].states == 3 * REPORT_EVERY_STATES + 1


def test_a_lasso_is_printed_with_the_step_it_goes_back_to() -> None:
    steps = tuple(TraceStep(label, "") for label in ("init", "a", "b"))
    assert str(Violation("Live", steps, loops_to=1)).endswith("and on from 1 again, forever")
    assert str(Violation("Live", steps, loops_to=2)).endswith("and nothing more happens")


class Node(NamedTuple):
    place: int
    extra: tuple[int, ...]


class Graph(Model[Node]):
    """A random graph; being at the place to avoid breaks an invariant, arriving there a step property."""

    name = "graph"
    state_type = Node

    def __init__(self, arrows: frozenset[tuple[int, int]], avoid: int) -> None:
        self.arrows = arrows
        self.avoid = avoid

    def initial(self) -> list[Node]:
        return [Node(0, (0,)), Node(1, (1,))]

    def steps(self, state: Node) -> list[tuple[Label, Node]]:
        return [(("go", b), Node(b, (b % 3,))) for a, b in sorted(self.arrows) if a == state.place]

    def invariants(self) -> Mapping[str, Callable[[Node], bool]]:
        return {"Avoids": lambda state: state.place != self.avoid}

    def step_properties(self) -> Mapping[str, Callable[[Node, Label, Node], bool]]:
        return {"NeverArrives": lambda before, label, after: after.place != self.avoid}


def distances(arrows: frozenset[tuple[int, int]]) -> dict[int, int]:
    """How far each reachable place is, by relaxing every arrow until nothing changes."""
    known = {0: 0, 1: 0}
    while True:
        better = {
            b: known[a] + 1 for a, b in arrows if a in known and known.get(b, len(arrows) + 1) > known[a] + 1
        }
        if not better:
            return known
        known |= better


arrow_sets = st.frozensets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25)


@given(arrow_sets, st.integers(0, 8))
def test_random_graphs_are_explored_as_by_a_search_that_shares_no_code(
    arrows: frozenset[tuple[int, int]], avoid: int
) -> None:
    known = distances(arrows)
    found = explore(Graph(arrows, avoid), properties=[])
    assert {found.state(index).place for index in range(found.states)} == set(known)
    assert found.states == len(known)
    assert found.transitions == sum(a in known for a, _ in arrows)
    assert found.depth == max(known.values())
    for index in range(found.states):
        run = found.trace_to(index)
        assert len(run) - 1 == known[found.state(index).place]
        assert all((a[1].place, b[1].place) in arrows for a, b in pairwise(run))


@given(arrow_sets, st.integers(0, 8))
def test_the_trace_to_a_violation_in_a_random_graph_is_shortest(
    arrows: frozenset[tuple[int, int]], avoid: int
) -> None:
    known = distances(arrows)
    state_violation = explore(Graph(arrows, avoid), properties=["Avoids"]).violation
    assert (state_violation.steps() if state_violation else None) == known.get(avoid)
    step_violation = explore(Graph(arrows, avoid), properties=["NeverArrives"]).violation
    nearest = min((known[a] + 1 for a, b in arrows if b == avoid and a in known), default=None)
    assert (step_violation.steps() if step_violation else None) == nearest


def test_the_example_of_the_table_runs() -> None:
    assert doctest.testmod(states).failed == 0


fields = st.one_of(
    st.integers(-3, 3), st.text("ab", max_size=2), st.none(), st.tuples(st.integers(0, 1), st.text("a"))
)


@given(st.lists(st.tuples(fields, fields, fields)))
def test_the_table_numbers_states_as_a_dictionary_would(arriving: list[tuple[Any, ...]]) -> None:
    def rebuilt(*values: object) -> tuple[Any, ...]:
        return values

    table: StateTable[tuple[Any, ...]] = StateTable(rebuilt)
    plain: dict[tuple[Any, ...], int] = {}
    for state in arriving:
        is_new = state not in plain
        number = plain.setdefault(state, len(plain))
        assert table.add(state) == (number, is_new)
    assert len(table) == len(plain)
    assert [table[number] for number in range(len(table))] == list(plain)
