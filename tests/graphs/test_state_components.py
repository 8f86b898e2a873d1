"""Components that resume from what was saved.

- *journey*: random graphs on random numbers of workers, saved whole or by changes at random epochs and taken
  up by other workers. scipy's components of all edges so far say what every epoch must report, as if nothing
  had happened. Only these find a follower that nobody remembers, or a vertex with two owners.
- *hand-over*: what the new owner of a label must know. They find what a random graph hits once in a while.
- *cost*: that little is saved where little has changed.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

from pointstamp.dataflow import Dataflow
from pointstamp.graphs import connected_components
from support.journeys import Journey

Edges = npt.NDArray[np.int64]
Labels = dict[int, int]
Step = tuple[list[tuple[int, int]], str, int]


def oracle(edges: Edges) -> Labels:
    """Each vertex's least companion, by scipy."""
    if not len(edges):
        return {}
    ids, ends = np.unique(edges, return_inverse=True)
    src, dst = ends.reshape(edges.shape).T
    graph = coo_matrix((np.ones(len(edges), np.int8), (src, dst)), shape=(len(ids), len(ids)))
    _, component = scipy_components(graph, directed=False)
    least: Labels = {}
    for vertex, number in zip(ids.tolist(), component.tolist(), strict=True):  # ids ascend
        least.setdefault(number, vertex)
    return {v: least[number] for v, number in zip(ids.tolist(), component.tolist(), strict=True)}


def journey(workers: int) -> Journey:
    flow = Dataflow("components")
    edges = flow.stream_input("edges", "src long, dst long")
    flow.output("components", connected_components(edges))
    return Journey(flow.plan, workers)


def send(run: Journey, edges: Edges) -> None:
    parts = np.array_split(edges, run.workers + 1)
    run.next_epoch({"edges": [pa.record_batch({"src": part[:, 0], "dst": part[:, 1]}) for part in parts]})


def check(run: Journey, sent: list[Edges]) -> None:
    """Every epoch has reported what changed in it, and nothing else."""
    kept: Labels = {}
    for epoch in range(len(sent)):
        expected = oracle(np.concatenate(sent[: epoch + 1]))
        rows: list[tuple[int, int]] = []
        if ("components", epoch) in run.results:
            table = run.results["components", epoch]
            columns = (table.column(name).to_pylist() for name in ("vertex", "component"))
            rows = list(zip(*columns, strict=True))
        changed = {v: label for v, label in expected.items() if kept.get(v) != label}
        assert len(rows) == len(changed), f"epoch {epoch}"
        assert dict(rows) == changed, f"epoch {epoch}"
        kept = expected


def run_steps(workers: int, steps: list[Step]) -> None:
    sent: list[Edges] = []
    with journey(workers) as run:
        for pairs, act, number in steps:
            sent.append(np.array(pairs, np.int64).reshape(-1, 2))
            send(run, sent[-1])
            if act != "nothing":
                run.save(changes_only="changes" in act)
            if "then" in act:
                run.go_on(number)
        run.finish()
        check(run, sent)


vertices = st.one_of(st.integers(0, 25), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 40, -5]))
acts = st.sampled_from(["nothing", "whole", "changes", "whole then", "changes then", "changes then"])
steps_of = st.lists(
    st.tuples(st.lists(st.tuples(vertices, vertices), max_size=9), acts, st.integers(1, 4)),
    min_size=2,
    max_size=7,
)


@settings(deadline=None)
@given(workers=st.integers(1, 4), steps=steps_of)
def test_a_journey_over_any_workers_reports_what_an_uninterrupted_run_does(
    workers: int, steps: list[Step]
) -> None:
    run_steps(workers, steps)


@pytest.mark.parametrize("route", [(1, 3, 2), (3, 2, 1), (2, 2, 2), (1, 1, 1), (4, 1, 3)])
def test_a_large_graph_goes_from_workers_to_workers(route: tuple[int, int, int]) -> None:
    chance = np.random.default_rng(7)
    epochs = [chance.integers(0, 3000, (300, 2)) for _ in range(9)]
    with journey(route[0]) as run:
        for epoch, edges in enumerate(epochs):
            send(run, edges)
            run.save(changes_only=epoch % 4 != 0)
            if epoch % 3 == 2 and epoch < 8:
                run.go_on(route[epoch // 3 + 1])
        run.finish()
        check(run, epochs)


def test_the_new_owner_of_a_label_tells_every_worker_that_uses_it() -> None:
    """One giant saved by one worker: on four, each of three others has members, and none of them asks."""
    star = np.stack((np.full(400, 1000), 1000 + np.arange(400)), axis=1)
    sent = [star, np.array([(1000, 7)]), np.array([(7, -3)])]
    with journey(1) as run:
        send(run, star)
        run.save(changes_only=True)
        run.go_on(4)
        send(run, sent[1])
        run.save(changes_only=True)
        run.go_on(3)
        send(run, sent[2])
        run.finish()
        check(run, sent)


def test_changes_hold_only_what_has_changed() -> None:
    with journey(2) as run:
        send(run, np.stack((np.arange(0, 2000, 2), np.arange(1, 2000, 2)), axis=1))
        run.save(changes_only=True)
        send(run, np.array([(0, 2), (5000, 5000)]))
        run.save(changes_only=True)
        run.save(changes_only=True)
        rows = {
            name: [sum(chain[number].table.num_rows for chain in chains) for number in range(3)]
            for (_, name), chains in run.saved.items()
        }
        # 2 and 3 have the label 0 now, which one of them may follow; and 5000 is new, and its own label.
        assert rows["labels"] == [2000, 3, 0]
        assert 1000 < rows["members"][0] < 2000
        assert rows["members"][1:] in ([2, 0], [3, 0])
        run.finish()
