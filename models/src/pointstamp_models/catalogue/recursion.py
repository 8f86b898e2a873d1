"""Stack times before the judge: two decision procedures against exploration, on random recursive graphs.

The procedure as the paper prints it is M5.7. It is right on base graphs without cycles and wrong exactly on
those where a cycle passes through a call node. There is nothing to explore here step by step, so the entry
has checks only.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from pointstamp_models.exploring.entry import Check, Entry, Outcome
from pointstamp_models.spec.recursion import (
    IN,
    OUT,
    BaseGraph,
    Frame,
    decide,
    decide_as_published,
    explore_leads_to,
    stacks,
)

ACYCLIC_COUNT: Final = 40
CYCLIC_COUNT: Final = 88
COMPARED_LENGTH_MAX: Final = 2
EXPLORED_DEPTH_MAX: Final = 4
SEED: Final = 57

Procedure: TypeAlias = Callable[[BaseGraph, Frame, Frame], bool]

SMALLEST: Final = BaseGraph(
    ordinary=("x",),
    calls=("c",),
    edges=frozenset({(IN, OUT), (IN, "x"), ("x", "c"), ("c", "x"), ("c", OUT)}),
)
"""The smallest base graph on which the published procedure is wrong, from ("in", cc) to ("in", c)."""


def random_base_graph(random: Random) -> BaseGraph:
    """Up to two ordinary nodes and one or two call nodes with random edges; proper or not."""
    ordinary = ("x", "y")[: random.randint(0, 2)]
    calls = ("c", "d")[: random.randint(1, 2)]
    nodes = [IN, *ordinary, *calls, OUT]
    density = random.choice([0.3, 0.4, 0.5])
    links = [(a, b) for a in nodes[:-1] for b in nodes[1:] if a != b and random.random() < density]
    return BaseGraph(ordinary, calls, frozenset(links))


def base_graphs(acyclic: int, cyclic: int, seed: int = SEED) -> tuple[list[BaseGraph], list[BaseGraph]]:
    """So many proper base graphs without a cycle and with one, no two alike."""
    random = Random(seed)  # noqa: S311 - reproducible cases, no secrets
    without: dict[BaseGraph, None] = {}
    with_cycle: dict[BaseGraph, None] = {}
    while len(without) < acyclic or len(with_cycle) < cyclic:
        base = random_base_graph(random)
        if base.why_not_proper() is None:
            (with_cycle if base.on_cycles() else without)[base] = None
    return list(without)[:acyclic], list(with_cycle)[:cyclic]


def first_difference(base: BaseGraph, procedure: Procedure) -> tuple[Frame, Frame] | None:
    """Two frames on which the procedure and exploration differ, or None if they agree on all short stacks."""
    frames = [(p, stack) for stack in stacks(base, COMPARED_LENGTH_MAX) for p in base.nodes]
    for origin in frames:
        reached = explore_leads_to(base, origin, depth_max=EXPLORED_DEPTH_MAX)
        for target in frames:
            if procedure(base, origin, target) != (target in reached):
                return origin, target
    return None


def corrected_procedure_agrees() -> Outcome:
    """The procedure that tries every common prefix agrees with exploration on all graphs."""
    without, with_cycle = base_graphs(ACYCLIC_COUNT, CYCLIC_COUNT)
    wrong = [base for base in (*without, *with_cycle) if first_difference(base, decide)]
    count = len(without) + len(with_cycle)
    return Outcome(not wrong, count, f"agrees on {count - len(wrong)} of {count} graphs")


def published_procedure_is_right_without_cycles() -> Outcome:
    """The published procedure agrees with exploration on every graph without a cycle."""
    without, _ = base_graphs(ACYCLIC_COUNT, 0)
    wrong = [base for base in without if first_difference(base, decide_as_published)]
    return Outcome(not wrong, len(without), f"agrees on {len(without) - len(wrong)} of {len(without)} graphs")


def published_procedure_is_rejected() -> Outcome:
    """The published procedure is wrong on a graph with cycles exactly if one passes through a call node."""
    _, with_cycle = base_graphs(0, CYCLIC_COUNT)
    wrong = [base for base in with_cycle if first_difference(base, decide_as_published)]
    expected = [base for base in with_cycle if base.has_cycle_through_call()]
    smallest = first_difference(SMALLEST, decide_as_published)
    return Outcome(
        bool(wrong) and wrong == expected and smallest is not None,
        len(with_cycle),
        f"differs from exploration on {len(wrong)} of {len(with_cycle)} graphs with cycles; "
        f"on the smallest, from {smallest[0] if smallest else None} to {smallest[1] if smallest else None}",
    )


ENTRY: Final = Entry(
    name="recursion",
    title="recursive dataflow with stacks as times (Abadi & Isard 2015)",
    instances=(),
    checks=(
        Check("every common prefix, against exploration", corrected_procedure_agrees),
        Check("longest common prefix, graphs without cycles", published_procedure_is_right_without_cycles),
        Check("longest common prefix, graphs with cycles", published_procedure_is_rejected, rejects="M5.7"),
    ),
)
