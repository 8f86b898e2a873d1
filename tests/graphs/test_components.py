"""Connected components as a flow: the right answer after every epoch, on any number of workers.

Families:
- *oracle*: scipy's components of all edges so far, after every epoch, on graphs that were built to be hard
  (long chains, stars, many tiny components, one giant, components that merge) and on random ones. What a run
  reports must be that, and only what changed.
- *schedule*: workers that step in any order while several epochs are under way. Only these find results that
  hold because one epoch happened to be done before the next began.
- *rounds*: how often facts go round. Only these find a right answer that takes a round for every vertex.
- *refusal*: what must not be taken in, and what is said about it.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

from pointstamp.dataflow import Dataflow
from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs import connected_components
from pointstamp.worker.events import Event, MessageSent

Edges = npt.NDArray[np.int64]
Labels = dict[int, int]

WORKERS = (1, 2, 3)


def edges_of(pairs: Sequence[tuple[int, int]]) -> Edges:
    return np.array(pairs, np.int64).reshape(-1, 2)


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


class Run:
    """A flow of components on some workers, whose results are checked epoch by epoch."""

    def __init__(self, workers: int, log: Any = None) -> None:  # noqa: ANN401 - any event log
        flow = Dataflow("components")
        edges = flow.stream_input("edges", "src long, dst long")
        flow.output("components", connected_components(edges))
        self.results: dict[int, pa.Table] = {}
        self.run = LocalRun(flow.plan, workers, on_result=self._keep, log=log)
        self.sent: list[Edges] = []

    def send(self, edges: Edges, parts: int = 3) -> None:
        """One epoch, cut into parts that arrive on the workers in turn."""
        handle = self.run.input("edges")
        for part in np.array_split(edges, parts):
            handle.send(pa.record_batch({"src": part[:, 0], "dst": part[:, 1]}))
        self.sent.append(edges)
        handle.advance_to(len(self.sent))

    def finish(self) -> None:
        self.run.input("edges").close()
        self.run.settle()
        assert self.run.is_complete

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        # Also where hypothesis gives up an example half way: what is held then is nobody's mistake.
        self.run.close()

    def check(self) -> None:
        """After every epoch the kept table is the oracle's, and nothing was reported without need."""
        kept: Labels = {}
        for epoch in range(len(self.sent)):
            expected = oracle(np.concatenate(self.sent[: epoch + 1]))
            rows: list[tuple[int, int]] = []
            if epoch in self.results:
                columns = (self.results[epoch].column(name).to_pylist() for name in ("vertex", "component"))
                rows = list(zip(*columns, strict=True))
            changed = {v: label for v, label in expected.items() if kept.get(v) != label}
            assert len(rows) == len(changed), f"epoch {epoch}"
            assert dict(rows) == changed, f"epoch {epoch}"
            kept = expected

    def _keep(self, name: str, epoch: int, table: pa.Table) -> None:
        assert epoch not in self.results
        self.results[epoch] = table


def chain(length: int, order: Callable[[int], Iterable[int]] = range) -> Edges:
    vertices = np.array(list(order(length)), np.int64)
    return np.stack((vertices[:-1], vertices[1:]), axis=1)


def shuffled(length: int) -> Iterable[int]:
    return np.random.default_rng(length).permutation(length).tolist()  # type: ignore[no-any-return]


def zigzag(length: int) -> Iterable[int]:
    """0, n-1, 1, n-2, ...: every other vertex is less than both of its neighbours."""
    return (v // 2 if v % 2 == 0 else length - 1 - v // 2 for v in range(length))


def in_parts(edges: Edges, parts: int, seed: int = 0) -> list[Edges]:
    """The edges in random order, over so many epochs."""
    return np.array_split(np.random.default_rng(seed).permutation(edges), parts)


def random_edges(vertices: int, edges: int, seed: int = 0) -> Edges:
    return np.random.default_rng(seed).integers(0, vertices, (edges, 2))


def power_law(vertices: int, edges: int) -> Edges:
    chance = np.random.default_rng(1)
    return (vertices * chance.random((edges, 2)) ** [4, 1]).astype(np.int64)


def pairs_merging(levels: int) -> list[Edges]:
    """Single vertices, then pairs, then fours: every epoch merges all components two by two."""
    size = 1 << levels
    singles = np.arange(size)
    epochs = [np.stack((singles, singles), axis=1)]
    for level in range(levels):
        firsts = np.arange(0, size, 2 << level)
        # Joined at their last vertices, of which none is a label.
        epochs.append(np.stack((firsts + (1 << level) - 1, firsts + (2 << level) - 1), axis=1))
    return epochs


def label_falls_each_epoch(size: int) -> list[Edges]:
    """One giant that in every epoch meets a vertex that is less than all before."""
    star = np.stack((np.full(size, 1000), 1000 + np.arange(size)), axis=1)
    return [star, *(edges_of([(1000 + 7 * epoch, -epoch)]) for epoch in range(1, 6))]


HARD: dict[str, list[Edges]] = {
    "a chain in order": [chain(3000)],
    "a chain backwards": [chain(3000)[::-1, ::-1]],
    "a chain shuffled": [chain(3000, shuffled)],
    "a chain in zigzag": [chain(3000, zigzag)],
    "a chain that grows from both ends": in_parts(chain(600), 6),
    "chains side by side": [np.concatenate([chain(50) + 1000 * each for each in range(40)])],
    "a star around the least": [np.stack((np.zeros(2000, np.int64), np.arange(2000)), axis=1)],
    "a star around the greatest": [np.stack((np.full(2000, 2000), np.arange(2000)), axis=1)],
    "a star whose centre comes last": [
        np.stack((np.arange(500), np.arange(500)), axis=1),
        np.stack((np.full(500, 250), np.arange(500)), axis=1),
    ],
    "many tiny components": in_parts(np.arange(4000).reshape(-1, 2), 4),
    "one giant": in_parts(random_edges(1000, 3000), 3),
    "at the threshold": in_parts(random_edges(2000, 1000), 8),
    "power law": in_parts(power_law(1500, 4000), 3),
    "merging two by two": pairs_merging(9),
    "a label that falls each epoch": label_falls_each_epoch(500),
    "the same edges again": [random_edges(100, 80), random_edges(100, 80), random_edges(100, 80)],
    "loops at vertices": [edges_of([(5, 5), (-3, -3)]), edges_of([(5, 5), (5, 6)]), edges_of([(-3, 6)])],
    "ids far apart": in_parts((random_edges(300, 280) - 150) * ((1 << 62) // 150), 4),
    "ids at both ends of the range": [
        edges_of([((1 << 63) - 1, -(1 << 63))]),
        edges_of([(0, 1), ((1 << 63) - 2, 1 - (1 << 63))]),
        edges_of([(1, (1 << 63) - 1), (0, (1 << 63) - 2)]),
    ],
    "epochs without edges": [edges_of([]), random_edges(50, 20), edges_of([]), random_edges(50, 20, 1)],
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", HARD)
def test_every_epoch_of_a_hard_graph_is_as_scipy_says(name: str, workers: int) -> None:
    with Run(workers) as run:
        for epoch in HARD[name]:
            run.send(epoch, parts=workers + 1)
            run.run.settle()
            assert run.run.is_done("components", len(run.sent) - 1)
        run.finish()
        run.check()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", HARD)
def test_epochs_of_a_hard_graph_that_are_all_sent_at_once_do_not_mix(name: str, workers: int) -> None:
    with Run(workers) as run:
        for epoch in HARD[name]:
            run.send(epoch, parts=workers + 1)
        run.finish()
        run.check()


few = st.integers(-5, 40)
far = st.sampled_from([-(1 << 62), -(1 << 40), 1 << 40, (1 << 62) - 1, 1 << 62])
random_epochs = st.lists(
    st.lists(st.tuples(st.one_of(few, few, few, far), few), max_size=20).map(edges_of), min_size=1, max_size=6
)


@given(random_epochs, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_every_epoch_of_a_random_graph_is_as_scipy_says(
    epochs: list[Edges], workers: int, parts: int, at_once: int
) -> None:
    with Run(workers) as run:
        for number, epoch in enumerate(epochs, start=1):
            run.send(epoch, parts)
            if number % at_once == 0:
                run.run.settle()
        run.finish()
        run.check()


@given(random_epochs, st.integers(2, 4), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_workers_may_step_in_any_order_while_epochs_overlap(
    epochs: list[Edges], workers: int, chance: random.Random
) -> None:
    with Run(workers) as run:
        for epoch in epochs:
            run.send(epoch, chance.randint(1, 4))
            for _ in range(chance.randrange(30)):
                # One worker may be far ahead of another, which hears of its own epochs late.
                chance.choice(workers_of(run.run)).step()
        run.finish()
        run.check()


# Rounds.


class Rounds:
    """Takes down how often facts went round."""

    def __init__(self) -> None:
        self.last = 0

    def record(self, event: Event) -> None:
        if isinstance(event, MessageSent) and len(event.time) == 2:
            self.last = max(self.last, event.time[1])


@pytest.mark.parametrize("order", [range, shuffled, zigzag])
@pytest.mark.parametrize("workers", [2, 3, 8])
def test_a_chain_takes_rounds_by_the_logarithm_of_its_length(
    order: Callable[[int], Iterable[int]], workers: int
) -> None:
    rounds = Rounds()
    with Run(workers, log=rounds) as run:
        run.send(chain(1 << 12, order), parts=20)
        run.finish()
        assert 1 <= rounds.last <= 2 * 12
        assert set(run.results[0].column("component").to_pylist()) == {0}


def test_a_single_worker_needs_no_round() -> None:
    rounds = Rounds()
    with Run(1, log=rounds) as run:
        for epoch in in_parts(chain(2000, shuffled), 5):
            run.send(epoch)
        run.finish()
        assert rounds.last == 0
        run.check()


# Names and refusals.


def build(schema: str, **names: Any) -> Dataflow:  # noqa: ANN401 - keyword arguments of the function
    flow = Dataflow("components")
    flow.output("components", connected_components(flow.stream_input("edges", schema), **names))
    return flow


def feed(flow: Dataflow, rows: dict[str, Any]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    with flow.open(on_result=lambda name, epoch, table: found.extend(table.to_pylist())) as run:
        run.input("edges").send(pa.RecordBatch.from_pydict(rows, schema=flow.plan.nodes[0].outputs[0].schema))
        run.input("edges").advance_to(1)
        run.settle()
    return sorted(found, key=lambda row: row["vertex"])


def test_columns_may_have_other_names_and_narrower_numbers() -> None:
    flow = build("follower int, weight double, followed long", src="follower", dst="followed")
    found = feed(flow, {"follower": [4, 9], "weight": [0.5, 0.5], "followed": [2, 9]})
    assert found == [
        {"vertex": 2, "component": 2},
        {"vertex": 4, "component": 2},
        {"vertex": 9, "component": 9},
    ]


def test_added_edges_may_carry_a_diff() -> None:
    flow = build("src long, dst long, diff int", diff="diff")
    assert len(feed(flow, {"src": [1, 2], "dst": [2, 3], "diff": [1, 2]})) == 3


@pytest.mark.parametrize("diff", [-1, 0, None])
def test_a_deletion_is_refused_with_the_edge_and_what_to_do(diff: int | None) -> None:
    flow = build("src long, dst long, diff int", diff="diff")
    said = rf"only be inserted.*from 5 to 6 has 'diff' {diff} \(1 such rows\).*ps.graphs.Graph"
    with pytest.raises(FlowError, match=said):
        feed(flow, {"src": [1, 5], "dst": [2, 6], "diff": [1, diff]})


@pytest.mark.parametrize("column", ["src", "dst"])
def test_a_null_is_refused_with_its_column(column: str) -> None:
    rows: dict[str, list[int | None]] = {"src": [1, 2], "dst": [3, 4]}
    rows[column][1] = None
    with pytest.raises(SchemaError, match=f"'{column}' must name a vertex .* null in 1 of 2 rows of epoch 0"):
        feed(build("src long, dst long"), dict(rows))


@pytest.mark.parametrize(
    ("schema", "names", "found"),
    [
        ("src long, target long", {}, "'dst', which is not among them; the columns are 'src', 'target'"),
        ("src string, dst long", {}, "'src', which is of type string"),
        ("src long, dst long", {"diff": "op"}, "'op', which is not among them"),
    ],
)
def test_a_stream_without_whole_numbers_is_refused_where_the_flow_is_written(
    schema: str, names: dict[str, str], found: str
) -> None:
    with pytest.raises(SchemaError, match=f"connected_components of stream 'edges' .* in column {found}"):
        build(schema, **names)


def test_components_inside_a_loop_are_refused() -> None:
    flow = Dataflow("nested")
    edges = flow.stream_input("edges", "src long, dst long")
    loop = edges.loop("outer")
    with pytest.raises(FlowError, match=r"got a stream in loop 'outer'.*Leave the loop first"):
        connected_components(loop.enter(edges))
