"""Graphs by Pathway's own library, for ``benchmarks.graphs.run``, which starts it with a Python that has it.

    python benchmarks/graphs/pathway_peer.py ALGORITHM GRAPH SIZE FOLDER [EPOCHS CHANGE]

Pathway has PageRank (five steps in whole numbers, without a tolerance) and Bellman and Ford's shortest paths,
which are breadth-first search where every edge is as long. Its shortest paths forget the distance of a source
to which edges lead, so the source has an edge of length 0 to itself here. It reads the edges from CSV files
as one batch, with as many threads as PATHWAY_THREADS says, and the answer is taken from the rows that it
tells of. One JSON line; the answer of PageRank is compared here, with its own formula in numpy, because it is
another one than ours.

With EPOCHS the edges come through its Python connector, as in ``benchmarks/tables/pathway_peer.py``: an epoch
of CHANGE inserts and as many deletes is sent when the ranks of the one before are there. ``epoch_ms`` is the
median from the commit to the end of its time, without what its connector takes for the rows.
"""

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pathway as pw  # type: ignore[import-not-found]
from benchmarks.figures import report
from benchmarks.limits import processor_seconds
from pathway.stdlib.graphs.bellman_ford import bellman_ford  # type: ignore[import-not-found]
from pathway.stdlib.graphs.pagerank import pagerank  # type: ignore[import-not-found]

Numbers = npt.NDArray[np.int64]

SOURCE = 0
STEPS = 5


class Link(pw.Schema):  # type: ignore[misc]
    """The columns of edges."""

    src: int
    dst: int
    km: int


NUMBERED = pw.schema_builder(
    {
        "number": pw.column_definition(dtype=int, primary_key=True),
        "src": pw.column_definition(dtype=int),
        "dst": pw.column_definition(dtype=int),
    }
)


def solved(name: str, links: Any) -> Any:  # noqa: ANN401 - a table of Pathway
    """The answer: ``vertex`` and ``value``."""
    ends = links.select(vertex=links.src).concat_reindex(links.select(vertex=links.dst))
    vertices = ends.groupby(ends.vertex).group_by(ends.vertex).agg()
    vertices = vertices.with_id_from(vertices.vertex)
    if name == "pagerank":
        edges = links.select(u=links.pointer_from(links.src), v=links.pointer_from(links.dst))
        ranks = pagerank(edges, steps=STEPS)
        return vertices.select(vertices.vertex, value=ranks.ix(vertices.id).rank)
    length = 1.0 if name == "bfs" else pw.cast(float, links.km)
    edges = links.select(u=links.pointer_from(links.src), v=links.pointer_from(links.dst), dist=length)
    source = vertices.filter(vertices.vertex == SOURCE)
    edges = edges.concat_reindex(source.select(u=source.id, v=source.id, dist=0.0))
    found = bellman_ford(vertices.select(is_source=vertices.vertex == SOURCE), edges)
    distances = vertices.select(vertices.vertex, value=found.ix(vertices.id).dist_from_source)
    return distances.filter(distances.value < float("inf"))


def wanted_ranks(vertices: int, src: Numbers, dst: Numbers) -> Numbers:
    """Pathway's formula for ranks, in numpy; -1 where there is no vertex."""
    out, into = np.bincount(src, minlength=vertices), np.bincount(dst, minlength=vertices)
    ranks = np.full(vertices, 6_000)
    for _ in range(STEPS):
        flow = np.where(out == 0, 0, (ranks * 5) // np.maximum(out * 6, 1))
        came = np.bincount(dst, weights=flow[src], minlength=vertices).astype(np.int64)
        ranks = np.where(into > 0, came + 1_000, 1_000)
    return np.where(out + into > 0, ranks, -1)


class Told:
    """The answer as Pathway tells of its changes, by vertex."""

    def __init__(self, vertices: int) -> None:
        self.values: npt.NDArray[np.float64] = np.full(vertices, -1.0)

    def change(self, key: Any, row: Any, time: int, is_addition: bool) -> None:  # noqa: ANN401 - Pathway's
        """A row comes or goes."""
        del key, time
        if is_addition:
            self.values[row["vertex"]] = row["value"]
        elif self.values[row["vertex"]] == row["value"]:
            self.values[row["vertex"]] = -1


def from_scratch(name: str, place: Path, folder: Path) -> None:
    """All edges as one batch."""
    kept = np.load(place / "edges.npz")
    vertices, src, dst = int(kept["vertices"]), kept["src"], kept["dst"]
    told = Told(vertices)
    links = pw.io.csv.read(str(place / "csv"), schema=Link, mode="static")
    pw.io.subscribe(solved(name, links), told.change)
    begin, processor = perf_counter(), processor_seconds()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds, processor = perf_counter() - begin, processor_seconds() - processor
    figures: dict[str, Any] = {"vertices": vertices, "edges": len(src)}
    figures |= {"seconds": seconds, "processor_s": processor}
    if name == "pagerank":
        figures["checked"] = bool(np.array_equal(told.values, wanted_ranks(vertices, src, dst)))
    else:
        there = np.flatnonzero(told.values >= 0)
        np.savez(folder / "answer.npz", ids=there, values=told.values[there])
    report(name, **figures)


def in_epochs(place: Path, epochs: int, change: int) -> None:
    """PageRank while edges come and go."""
    from benchmarks.tables.pathway_peer import Changes, Gate

    kept = np.load(place / "edges.npz")
    vertices, src, dst = int(kept["vertices"]), kept["src"].copy(), kept["dst"].copy()
    numbers, chance = np.arange(len(src)), np.random.default_rng(1)

    def rows(which: Numbers, weight: int) -> list[dict[str, int]]:
        columns = zip(numbers[which].tolist(), src[which].tolist(), dst[which].tolist(), strict=True)
        return [{"number": number, "src": s, "dst": d, "__diff__": weight} for number, s, d in columns]

    sent = [rows(np.arange(len(src)), 1)]
    for epoch in range(epochs):
        at = chance.choice(len(src), change, replace=False)
        gone = rows(at, -1)
        numbers[at] = len(src) + epoch * change + np.arange(change)
        src[at], dst[at] = chance.integers(0, vertices, (2, change))
        sent.append(gone + rows(at, 1))
    gate, told = Gate(1), Told(vertices)
    links = pw.io.python.read(Changes(sent, gate), schema=NUMBERED, autocommit_duration_ms=None)
    pw.io.subscribe(solved("pagerank", links), told.change, on_time_end=gate.told)
    begin = processor_seconds()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    report(
        "pagerank",
        vertices=vertices,
        edges=len(src),
        epochs=epochs,
        change=change,
        load_s=gate.sent[0] + gate.waited[0],
        epoch_ms=float(np.median(gate.waited[1:])) * 1e3,
        worst_ms=max(gate.waited[1:]) * 1e3,
        send_ms=float(np.median(gate.sent[1:])) * 1e3,
        processor_s=processor_seconds() - begin,
        compared=1,
        checked=bool(np.array_equal(told.values, wanted_ranks(vertices, src, dst))),
    )


def main() -> None:
    """Measure one cell."""
    name, graph, size, folder = sys.argv[1:5]
    place = Path(folder, f"{graph}-{size}")
    if len(sys.argv) > 5:
        in_epochs(place, int(sys.argv[5]), int(sys.argv[6]))
    else:
        from_scratch(name, place, Path(folder))


if __name__ == "__main__":
    main()
