"""What a cell of the table is about, and where its edges and answers lie, so that all systems have the same.

A folder keeps the edges of each graph as arrays, as Parquet files for Spark and as CSV files for Pathway, and
the answer of the oracle to each algorithm; each is made once, by who needs it first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from benchmarks.graphs.generators import GRAPHS, Edges
from benchmarks.graphs.peers import Answer

PARTS = 2
"""How many files of edges there are: one for each slot."""


@dataclass(frozen=True)
class Given:
    """A graph of some kind and size, in a folder."""

    graph: str
    size: int
    folder: Path

    @property
    def place(self) -> Path:
        """The folder of this graph."""
        return self.folder / f"{self.graph}-{self.size}"

    def edges(self) -> Edges:
        """The edges in memory."""
        path = self.place / "edges.npz"
        if not path.exists():
            made = GRAPHS[self.graph](self.size)
            _once(path, lambda file: _write_edges(file, made))
        with np.load(path) as kept:
            return Edges(int(kept["vertices"]), kept["src"], kept["dst"], kept["weight"])

    def parquet(self) -> str:
        """Where the edges lie as Parquet files: ``src``, ``dst`` and ``km``."""
        return self._files("parquet", pq.write_table)

    def csv(self) -> str:
        """Where the edges lie as CSV files with a head."""
        return self._files("csv", csv.write_csv)

    def answer_of(self, name: str, find: Callable[[Edges], Answer]) -> Answer:
        """The oracle's answer to an algorithm."""
        path = self.place / f"{name}.npz"
        if not path.exists():
            found = find(self.edges())
            _once(path, lambda file: write_answer(file, found))
        return read_answer(path)

    def _files(self, kind: str, write: Callable[[pa.Table, str], None]) -> str:
        there = self.place / kind
        if not there.exists():
            edges, new = self.edges(), self.place / f"{kind}.new"
            new.mkdir(parents=True, exist_ok=True)
            table = pa.table({"src": edges.src, "dst": edges.dst, "km": edges.weight})
            each = -(-table.num_rows // PARTS)
            for part in range(PARTS):
                write(table.slice(part * each, each), str(new / f"{part}.{kind}"))
            new.rename(there)
        return str(there)


def write_answer(path: Path, answer: Answer) -> None:
    """Keep an answer."""
    np.savez(path, ids=answer[0], values=answer[1])


def read_answer(path: Path) -> Answer:
    """An answer that was kept, in the order of its vertices."""
    with np.load(path) as kept:
        order = np.argsort(kept["ids"], kind="stable")
        return kept["ids"][order], kept["values"][order]


def _write_edges(path: Path, edges: Edges) -> None:
    np.savez(path, vertices=edges.vertices, src=edges.src, dst=edges.dst, weight=edges.weight)


def _once(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"new-{path.name}")
    write(new)
    new.rename(path)
