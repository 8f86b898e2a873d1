"""The judge of a torture: what must have been published, computed from the edges alone.

Labels are kept by moving the members of the greater label to the lesser one, edge by edge, which no part of
the flow does; scipy says now and then, and at the end, that this is right.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pointstamp.connectors.published.reader import published_now
from support.streams import Edges, least_labels, published_by_epoch

_SCIPY_EVERY: Final = 200


class Labels:
    """The least vertex of each vertex's component."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}

    def join(self, edges: Edges) -> dict[int, int]:
        """Add edges; return the labels that have changed."""
        before: dict[int, int | None] = {}
        for src, dst in edges:
            for vertex in (src, dst):
                if vertex not in self.of:
                    before[vertex] = None
                    self.of[vertex] = vertex
                    self._members[vertex] = [vertex]
            low, high = sorted((self.of[src], self.of[dst]))
            if low != high:
                moved = self._members.pop(high)
                self._members[low].extend(moved)
                for vertex in moved:
                    before.setdefault(vertex, high)
                    self.of[vertex] = low
        return {vertex: self.of[vertex] for vertex, old in before.items() if old != self.of[vertex]}


def judge(path: Path, output: str, batches: Sequence[Edges]) -> dict[str, Any]:
    """How many rows and epochs there are, and how many rows were lost or came more than once."""
    found = published_by_epoch(path, output)
    labels = Labels()
    sent: list[tuple[int, int]] = []
    lost = duplicated = rows = 0
    for epoch, edges in enumerate(batches):
        expected = Counter(labels.join(edges).items())
        there = Counter(found.pop(epoch, []))
        lost += (expected - there).total()
        duplicated += (there - expected).total()
        rows += there.total()
        sent.extend(edges)
        if epoch % _SCIPY_EVERY == 0 or epoch == len(batches) - 1:
            assert least_labels(sent) == labels.of, "the oracle itself is wrong"
    duplicated += sum(map(len, found.values()))  # epochs that nobody has sent
    through = published_now(str(path)).epochs_through
    assert through >= len(batches) - 1, f"published through epoch {through} of {len(batches)}"
    return {"epochs": len(batches), "rows": rows, "lost": lost, "duplicated": duplicated}
