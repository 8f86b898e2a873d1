"""Searches, components, triangles and whole graphs that resume from what was saved.

*Journey*: random graphs on random numbers of workers, saved whole or by changes at random epochs and taken up
by other workers. The oracles say what every epoch must add up to, as if nothing had happened. Only these find
a vertex whose key was saved and no longer is one, or an edge that two workers have, or none.
"""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from support.graph_flows import graph_flow, inputs_of, random_history, wholes
from support.graph_oracles import ORACLES
from support.journeys import Journey

NAMES = ["bfs", "sssp", "wcc", "triangles", "scc", "k_core", "minimum_spanning_forest"]
ACTS = ["nothing", "whole", "changes", "changes then", "changes then"]


def travel(workers: int, seed: int, steps: list[tuple[str, int]]) -> None:
    history = random_history(seed, vertices=8, epochs=len(steps), most=8)
    rows = inputs_of(history)
    with Journey(graph_flow(NAMES).plan, workers) as run:
        for epoch, (act, number) in enumerate(steps):
            run.next_epoch({name: [*tables[epoch].to_batches()] for name, tables in rows.items()})
            if act != "nothing":
                run.save(changes_only="changes" in act)
            if "then" in act:
                run.go_on(number)
        run.finish()
        for name in NAMES:
            there: Counter[tuple[Any, ...]] = Counter()
            for epoch, whole in enumerate(wholes(history, directed=True)):
                for row in run.results.get((name, epoch), pa.table({})).to_pylist():
                    *values, diff = row.values()
                    there[tuple(values)] += diff
                assert set(there.elements()) == ORACLES[name](whole), f"{name}, epoch {epoch}"


def chosen(seed: int) -> tuple[int, int, list[tuple[str, int]]]:
    """How many workers begin, the graph, and what happens after each epoch."""
    chance = random.Random(seed)
    return chance.randint(1, 4), seed, [(chance.choice(ACTS), chance.randint(1, 4)) for _ in range(6)]


@pytest.mark.parametrize("seed", range(5))
def test_a_journey_over_any_workers_adds_up_to_what_an_uninterrupted_run_does(seed: int) -> None:
    travel(*chosen(seed))


def test_as_many_workers_as_have_saved_go_on_with_what_each_of_them_knew() -> None:
    """Each gets back what it saved itself: keys and edges of others, too, or nobody would tell it of them."""
    travel(
        3, 1, [("whole", 3), ("changes then", 3), ("changes then", 3), ("changes then", 3), ("nothing", 3)]
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5, 25))
def test_many_journeys_add_up(seed: int) -> None:
    travel(*chosen(seed))
