"""Save and restore ranks, links and the number of sources.

Vertices and links belong to the owner of the vertex from which a link leads. The number of sources is that of
all workers: each saves the same one.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pointstamp.ports import Piece

_SOURCES: Final = "sources"


def pieces_of(
    vertices: pa.Table, links: pa.Table, sources: int | None, *, is_whole: bool
) -> Mapping[str, Piece]:
    """The pieces of a worker: everything, or what has changed since the last save."""
    pieces = {
        "vertices": Piece(vertices, ("id",), ("id",), is_whole),
        "links": Piece(links, ("src",), is_whole=is_whole, adds_up=True),
    }
    if sources is not None:
        pieces[_SOURCES] = Piece(pa.table({_SOURCES: pa.array([sources], pa.int64())}), ())
    return pieces


def saved_sources(pieces: Mapping[str, pa.Table]) -> int:
    """The number of sources that every worker has saved."""
    return max(pieces[_SOURCES][_SOURCES].to_pylist(), default=0)
