"""What tests of queries share: files that arrive whole, published rows by epoch, oracles, and patience.

The oracles compute from the files alone and share no code with what they judge.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

import pointstamp as ps
from pointstamp.errors import FlowError

SECONDS_MAX: Final = 180.0
Rows: TypeAlias = list[tuple[Any, ...]]
Edges: TypeAlias = Sequence[tuple[int, int]]


def until(condition: Callable[[], object], seconds: float = SECONDS_MAX) -> None:
    """Wait until something holds, on a machine that others use, too."""
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, "it has not happened in time"
        sleep(0.01)


def put(folder: Path, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Let a Parquet file appear whole in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder.parent / f".{name}.new"
    pq.write_table(pa.table(dict(columns)), new)
    os.rename(new, folder / f"{name}.parquet")


def words_flow(*names: str) -> ps.Dataflow:
    """How often has each word come until each epoch, over all inputs together?"""
    flow = ps.Dataflow("words")
    first, *others = [flow.stream_input(name, "word string") for name in names]
    flow.output(
        "counts", first.union(*others).group_by("word", running=True).count() if others else _counted(first)
    )
    return flow


def _counted(stream: ps.Stream) -> ps.Stream:
    return stream.group_by("word", running=True).count()


def components_flow() -> ps.Dataflow:
    """The components of a graph whose edges arrive in epochs."""
    from pointstamp.graphs import connected_components

    flow = ps.Dataflow("components")
    flow.output("components", connected_components(flow.stream_input("edges", "src long, dst long")))
    return flow


def published_by_epoch(path: Path | str, output: str) -> dict[int, Rows]:
    """What readers see: the rows of each epoch, sorted; nothing where nothing is published."""
    try:
        table = ps.read_changes(str(path), output)
    except FlowError:
        return {}
    found: dict[int, Rows] = {}
    for epoch, *row in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
        found.setdefault(epoch, []).append(tuple(row))
    return {epoch: sorted(rows) for epoch, rows in sorted(found.items())}


def counts_by_epoch(batches: Iterable[Sequence[str]]) -> dict[int, Rows]:
    """What ``words_flow`` must publish if each batch is one epoch."""
    counts: Counter[str] = Counter()
    expected: dict[int, Rows] = {}
    for epoch, words in enumerate(batches):
        counts.update(words)
        if words:
            expected[epoch] = sorted((word, counts[word]) for word in set(words))
    return expected


def last_counts(found: Mapping[int, Rows]) -> dict[str, int]:
    """The counts after the last epoch; each word at most once in each."""
    counts: dict[str, int] = {}
    for epoch, rows in found.items():
        assert len({word for word, _ in rows}) == len(rows), f"epoch {epoch} has a word twice"
        counts.update(rows)
    return counts


def least_labels(edges: Edges) -> dict[int, int]:
    """Each vertex's least companion, by scipy."""
    ids, ends = np.unique(np.array(edges, np.int64).reshape(-1, 2), return_inverse=True)
    src, dst = ends.reshape(-1, 2).T
    graph = coo_matrix((np.ones(len(src), np.int8), (src, dst)), shape=(len(ids), len(ids)))
    _, component = scipy_components(graph, directed=False)
    least: dict[int, int] = {}
    for vertex, number in zip(ids.tolist(), component.tolist(), strict=True):  # ids ascend
        least.setdefault(number, vertex)
    return {vertex: least[number] for vertex, number in zip(ids.tolist(), component.tolist(), strict=True)}


def labels_by_epoch(batches: Iterable[Edges]) -> dict[int, Rows]:
    """What ``components_flow`` must publish if each batch is one epoch: every label that has changed."""
    edges: list[tuple[int, int]] = []
    before: dict[int, int] = {}
    expected: dict[int, Rows] = {}
    for epoch, batch in enumerate(batches):
        edges.extend(batch)
        now = least_labels(edges)
        changed = sorted((vertex, label) for vertex, label in now.items() if before.get(vertex) != label)
        if changed:
            expected[epoch] = changed
        before = now
    return expected
