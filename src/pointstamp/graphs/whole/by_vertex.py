"""Answers with one number per vertex, and the changes between two of them."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slots import Slots, distinct, grown
from pointstamp.graphs.whole.counted import SlotEdges, WholeChange, WholeGraph
from pointstamp.graphs.whole.gathering import Columns


class VertexValues(Protocol):
    """A number for every vertex, which follows from the edges."""

    def change(self, vertices: npt.NDArray[np.int64], gone: SlotEdges, come: SlotEdges) -> Slots:
        """Take edges away and add others; return all whose numbers may be others now."""
        ...

    def of(self, slots: Slots) -> npt.NDArray[np.int64]:
        """The numbers of these."""
        ...


class ByVertex:
    """An answer with one number per vertex."""

    def __init__(self, values: VertexValues) -> None:
        self._values = values
        # What was said of each vertex, if something was.
        self._said: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._is_said: npt.NDArray[np.bool_] = np.empty(0, np.bool_)

    def changed(self, graph: WholeGraph, change: WholeChange) -> Columns:
        """``id`` and number of the vertices that come, go, or have another number."""
        count, known = graph.vertices.count, len(self._said)
        if count > known:
            self._said, self._is_said = grown(self._said, known, count), grown(self._is_said, known, count)
            self._is_said[known:] = False
        others = self._values.change(graph.vertices.ids, change.gone, change.come)
        slots = distinct(count, others, change.named)
        numbers, is_there = self._values.of(slots), graph.are_there(slots)
        was_said = self._is_said[slots]
        differs = (was_said != is_there) | (was_said & is_there & (self._said[slots] != numbers))
        back, out = slots[differs & was_said], differs & is_there
        ids = np.concatenate((graph.vertices.ids[back], graph.vertices.ids[slots[out]]))
        both = np.concatenate((self._said[back], numbers[out]))
        self._said[slots], self._is_said[slots] = numbers, is_there
        return ids, both, np.repeat(np.array([-1, 1]), [len(back), len(ids) - len(back)])
