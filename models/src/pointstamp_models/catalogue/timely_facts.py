"""Checks of could-result-in and of composition that are not explorations.

The facts of Abadi & Isard (2015), section 3, are tried on random graphs whose nodes do anything; a graph
counts only for what it can show, so the outcome also asks that enough of them were transitive and enough
were not. The runs of two composed graphs are compared with the runs of the whole graph in both directions.
"""

from random import Random
from typing import Final

from pointstamp_models.catalogue.timely_graphs import (
    buffered_parts,
    chain_parts,
    loop_parts,
    past_graph,
    random_graph,
)
from pointstamp_models.exploring.entry import Check, Outcome
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.spec.composition import Composed, Hidden, Observation, compose, missing_run
from pointstamp_models.spec.could_result_in import (
    CouldResultIn,
    above_any,
    close_up,
    embedding,
    is_transitive,
    messages_into_the_past,
    requests_into_the_past,
)
from pointstamp_models.spec.node import Graph, Message, Pointstamp
from pointstamp_models.spec.timely import Timely
from pointstamp_models.spec.timely_actions import Relation, TimelyState, union

RANDOM_GRAPHS: Final = 300
EACH_KIND_MIN: Final = 50


def broken_facts(relation: CouldResultIn, random: Random) -> list[str]:
    """The facts about ~> that this relation breaks, by name; the sets for Close_up are drawn at random."""
    some = [frozenset(random.sample(relation.pointstamps, size)) for size in (1, 2, 4)]
    facts = {
        "reflexive": all(relation.holds(x, x) for x in relation.pointstamps),
        "Proposition 1.1": _first_step_splits_off(relation),
        "Proposition 1.2": _respects_the_order_of_a_location(relation),
        "Proposition 1.3": _is_closed_under_the_order(relation),
        "Theorem 1": is_transitive(relation) == (not messages_into_the_past(relation)),
        "Proposition 2": _embeds_if_and_only_if_transitive(relation),
        "Proposition 3": bool(messages_into_the_past(relation))
        or all(close_up(relation, s) == above_any(relation, s) for s in some),
    }
    return [name for name, holds in facts.items() if not holds]


def _first_step_splits_off(relation: CouldResultIn) -> bool:
    graph = relation.graph
    edge_names = {edge.name for edge in graph.edges}
    return all(
        any(first[0] in graph.outgoing(p) and relation.holds(first, last) for first in relation.above((p, t)))
        for p in graph.nodes
        for t in graph.times.points()
        for last in relation.above((p, t))
        if last[0] in edge_names
    )


def _respects_the_order_of_a_location(relation: CouldResultIn) -> bool:
    order = relation.graph.times
    return all(
        order.less_equal(t, upper)
        for x, t in relation.pointstamps
        for y, upper in relation.above((x, t))
        if x == y
    )


def _is_closed_under_the_order(relation: CouldResultIn) -> bool:
    order = relation.graph.times
    return all(
        relation.holds((x, lower), (y, upper))
        for x, t in relation.pointstamps
        for y, reached in relation.above((x, t))
        for lower in order.points()
        for upper in order.points()
        if order.less_equal(lower, t) and order.less_equal(reached, upper)
    )


def _embeds_if_and_only_if_transitive(relation: CouldResultIn) -> bool:
    found = embedding(relation)
    if found is None:
        return not is_transitive(relation)
    order, place = found
    return is_transitive(relation) and all(
        relation.holds(x, y) == order.less_equal(place(x), place(y))
        for x in relation.pointstamps
        for y in relation.pointstamps
    )


def facts_hold_on_random_graphs(count: int = RANDOM_GRAPHS, seed: int = 5) -> Outcome:
    """Every fact about ~> holds on every random graph, transitive or not."""
    random = Random(seed)  # noqa: S311 - reproducible cases, no secrets
    transitive = asking_for_the_past = 0
    for case in range(count):
        graph = random_graph(random)
        relation = CouldResultIn(graph)
        broken = broken_facts(relation, random)
        if broken:
            return Outcome(False, case + 1, f"{', '.join(broken)} broken by case {case} of seed {seed}")
        transitive += is_transitive(relation)
        asking_for_the_past += bool(requests_into_the_past(graph))
    both_kinds = min(transitive, count - transitive) >= EACH_KIND_MIN
    return Outcome(
        both_kinds,
        count,
        f"{transitive} of {count} graphs have a transitive relation, {asking_for_the_past} break Condition 1",
    )


class OneStepClock(Timely):
    """Clock by the shorter formula of Proposition 3, which is Close_up only where Condition 2 holds."""

    def close_up(self, relation: Relation) -> dict[Pointstamp, int]:
        """The pointstamps that a pointstamp could result in, without further closure."""
        return {p: union(self.bit[q] for q in relation.above(p)) for p in self.bit}


def condition_2_is_needed() -> Outcome:
    """A node that sends into the past on a cycle breaks ClockAntitone where Clock is one step of ~>.

    With the least upward closed set it does not: that Clock contains whatever going round the cycle may
    bring. So Condition 2 is what makes the shorter formula right.
    """
    graph = past_graph()
    inputs: list[dict[str, list[Message]]] = [{"i": [(2, "m")]}]
    least = explore(Timely(graph, CouldResultIn(graph), inputs=inputs), properties=["ClockAntitone"])
    short = explore(OneStepClock(graph, CouldResultIn(graph), inputs=inputs), properties=["ClockAntitone"])
    broken = len(messages_into_the_past(CouldResultIn(graph)))
    holds = bool(broken) and least.violation is None and short.violation is not None
    steps = len(short.violation.trace) - 1 if short.violation else 0
    return Outcome(holds, broken, f"{broken} pairs go into the past; one step of ~> fails at step {steps}")


def missing_runs(
    first: Graph, second: Graph, content: list[Message], *, environment_waits: bool
) -> tuple[tuple[Observation, ...] | None, tuple[Observation, ...] | None]:
    """A run of the composition that the whole graph lacks, and a run of the whole that the composition lacks.

    What is seen are the queues of the input and output edges of the whole graph.
    """
    graph = compose(first, second)
    relation = CouldResultIn(graph)
    whole = Timely(graph, relation, inputs=[{"i": content}])
    composed = Composed(first, second, relation, inputs={"i": content}, environment_waits=environment_waits)
    border = [whole.edge_index[name] for name in (*graph.inputs, *graph.outputs)]
    seen_whole: Hidden[TimelyState] = Hidden(whole, lambda state: tuple(state.queues[e] for e in border))
    seen_composed = Hidden(composed, lambda state: tuple(state.queues[e] for e in border))
    return missing_run(seen_composed, seen_whole), missing_run(seen_whole, seen_composed)


def composition_equals_the_whole() -> Outcome:
    """Two composed graphs show the runs of the whole graph, and no others."""
    cases: list[tuple[str, tuple[Graph, Graph], list[Message]]] = [
        ("chain", chain_parts(), [(1, "m"), (3, "m")]),
        ("buffered chain", buffered_parts(), [(1, "m"), (3, "m")]),
        ("loop", loop_parts(buffers=True), [(1, "m"), (0, "m")]),
    ]
    for name, parts, content in cases:
        extra, lost = missing_runs(*parts, content, environment_waits=True)
        if extra or lost:
            return Outcome(False, len(cases), f"{name}: the composition adds {extra} and lacks {lost}")
    return Outcome(True, len(cases), "equal in both directions: " + ", ".join(name for name, _, _ in cases))


def composition_as_printed_differs() -> Outcome:
    """The printed composition lets the environment act with a node, and stops a loop without buffers."""
    content: list[Message] = [(1, "m"), (3, "m")]
    extra, nothing_lost = missing_runs(*buffered_parts(), content, environment_waits=False)
    nothing_extra, lost = missing_runs(*loop_parts(buffers=False), [(0, "m")], environment_waits=True)
    holds = bool(extra) and nothing_lost is None and nothing_extra is None and bool(lost)
    return Outcome(holds, 2, f"run of the composition only: {extra}; run of the whole only: {lost}")


CHECKS: Final = (
    Check("facts about could-result-in on random graphs", facts_hold_on_random_graphs),
    Check("Condition 2 and the formula for Clock", condition_2_is_needed),
    Check("composed graphs and the whole graph", composition_equals_the_whole),
    Check("composition as printed", composition_as_printed_differs),
)
