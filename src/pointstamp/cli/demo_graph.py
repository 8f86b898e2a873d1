"""The graph of ``pointstamp demo``: edge files, published results, and verification.

``Arrivals`` writes the edges of a seed into a folder, one Parquet file after the other; each file appears
when it is complete. ``Labels`` puts published changes together. ``differences`` compares every published
epoch with the components that scipy finds from scratch in the files themselves: after each epoch the labels
must be those of the files so far, each epoch must hold exactly the vertices that changed, and no vertex
twice. It shares no code with the flow, so an epoch that a crash has lost, torn or repeated cannot hide.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED: Final = 20_150_101
NO_LABEL: Final = -1

Numbers: TypeAlias = npt.NDArray[np.int64]


class Arrivals:
    """Writes files of edges at a rhythm, in a separate thread, until all are there or it is stopped.

    It never writes more files than ``allow`` permits: a viewer wants to see a stream, and not a heap of files
    that a slow machine has yet to read.
    """

    def __init__(self, folder: Path, *, edges: int, vertices: int, files: int, every_seconds: float) -> None:
        self.folder = folder
        self.files = files
        self.written = 0
        self._edges = edges
        self._vertices = vertices
        self._every_seconds = every_seconds
        self._allowed = threading.Semaphore(0)
        self._allowed_files = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pointstamp-arrivals", daemon=True)

    @property
    def is_done(self) -> bool:
        """Whether every file is there."""
        return self.written == self.files

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def allow(self, files: int) -> None:
        """Let so many files be there; called by one thread alone."""
        if files > self._allowed_files:
            self._allowed.release(files - self._allowed_files)
            self._allowed_files = files

    def stop(self) -> None:
        """Write no further file."""
        self._stop.set()
        self._allowed.release()
        if self._thread.ident is not None:
            self._thread.join()

    def table(self, number: int) -> pa.Table:
        """The edges of one file: the same for the same number."""
        first, last = (self._edges * n // self.files for n in (number, number + 1))
        ends = np.random.default_rng((SEED, number)).integers(0, self._vertices, (2, last - first))
        return pa.table({"src": ends[0], "dst": ends[1]})

    def _run(self) -> None:
        for number in range(self.files):
            self._allowed.acquire()
            if self._stop.is_set():
                return
            name = f"edges-{number:05d}.parquet"
            unfinished = self.folder / f".{name}"
            pq.write_table(self.table(number), unfinished)
            os.rename(unfinished, self.folder / name)
            self.written += 1
            if self._stop.wait(self._every_seconds):
                return


class Labels:
    """The component of each vertex so far, as the published changes have it."""

    def __init__(self, vertices: int) -> None:
        self.labels: Numbers = np.full(vertices, NO_LABEL)
        self.epoch = -1

    def apply(self, changes: pa.Table) -> None:
        """Take the rows of later epochs, which may be several."""
        for _, vertices, components in by_epoch(changes):
            self.labels[vertices] = components
        if changes.num_rows:
            self.epoch = int(np.max(changes["epoch"].to_numpy()))

    @property
    def vertices(self) -> int:
        """The number of known vertices."""
        return int(np.count_nonzero(self.labels != NO_LABEL))

    @property
    def components(self) -> int:
        """The number of components; each is named by one of its vertices."""
        return int(np.count_nonzero(self.labels == np.arange(len(self.labels))))

    @property
    def largest(self) -> int:
        """The vertices of the largest component."""
        known = self.labels[self.labels != NO_LABEL]
        return int(np.max(np.bincount(known))) if len(known) else 0


def by_epoch(changes: pa.Table) -> Iterator[tuple[int, Numbers, Numbers]]:
    """Each epoch in order, with its vertices and their components."""
    if not changes.num_rows:
        return
    epochs, vertices, components = (
        changes[name].to_numpy().astype(np.int64, copy=False) for name in ("epoch", "vertex", "component")
    )
    order = np.argsort(epochs, kind="stable")
    names, starts = np.unique(epochs[order], return_index=True)
    for name, start, stop in zip(names.tolist(), starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:stop]
        yield name, vertices[rows], components[rows]


def differences(published: pa.Table, arrivals: Arrivals, vertices: int) -> Iterator[str]:
    """The differences from what scipy finds, as text; none if all is well."""
    files = _by_scipy(arrivals, vertices)
    after = 0
    labels: Numbers = np.full(vertices, NO_LABEL)
    expected = labels
    for epoch, changed, components in by_epoch(published):
        before = labels.copy()
        labels[changed] = components
        if len(np.unique(changed)) != len(changed):
            yield f"epoch {epoch} holds a vertex twice"
        if np.any(before[changed] == components):
            yield f"epoch {epoch} holds a vertex that has not changed"
        # An epoch may take several files, where Structured Streaming has put them together.
        while after < arrivals.files and (after <= epoch or not np.array_equal(labels, expected)):
            expected = next(files)
            after += 1
        if not np.array_equal(labels, expected):
            wrong = int(np.count_nonzero(labels != expected))
            yield f"after epoch {epoch}, {wrong:,} vertices have another component than in the files so far"
            return
    if not all(np.array_equal(labels, expected) for expected in files):  # files may change nothing
        yield f"after {after} of {arrivals.files} files nothing more was published"


def _by_scipy(arrivals: Arrivals, vertices: int) -> Iterator[Numbers]:
    """After each file the least vertex of each vertex's component, from scratch."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends: list[Any] = [np.empty((2, 0), np.int64)]
    for number in range(arrivals.files):
        table = pq.read_table(arrivals.folder / f"edges-{number:05d}.parquet")
        ends.append(np.stack([table["src"].to_numpy(), table["dst"].to_numpy()]))
        src, dst = np.concatenate(ends, axis=1)
        graph = coo_array((np.ones(len(src), np.int8), (src, dst)), shape=(vertices, vertices))
        count, component = connected_components(graph, directed=False)
        least = np.full(count, vertices)
        np.minimum.at(least, component, np.arange(vertices))
        labels = least[component]
        known = np.zeros(vertices, bool)
        known[src] = known[dst] = True
        yield np.where(known, labels, NO_LABEL)
