"""Integer ranks and residuals, and how a residual is pushed along links.

A vertex u has a *reset* b(u), 1 or 0, a rank p(u), and what comes in, s(u): the sum over all links v -> u of
the *share* of v, which is d p(v) / out(v), rounded to a whole number of units. The residual b(u) + s(u) -
p(u) is what the rank lacks. To *push* u is to let its rank be b(u) + s(u), and to send the change of its
share along its links; this is what Gauss and Southwell do with the largest residual, done here with all that
are too large at once. A link that comes or goes changes the share of its source, and so the residuals beside
that alone.

What is pushed early goes round as many small changes, some up and some down. So a residual waits until it is
among the larger ones: in round i all are pushed that exceed 2^-i resets, until that is the tolerance. What
comes in meanwhile adds up, or cancels out; this halves the work. All workers know the round, so who waits
does not depend on who asks.

A share is a function of the rank and the number of links as they are now. So what has come in is exactly the
sum of shares as they are now, whatever the order in which changes were added up and however often; when all
links to a vertex are gone, s(u) is 0, and not almost 0. Floating-point sums could promise none of that.

It ends: with a residual r at a vertex of n links, a push takes |r| away and adds at most d |r| + n units
elsewhere. So vertices are pushed when |r| exceeds the tolerance and also 2 n / (1 - d) units, and each push
takes more than n units from the sum of all residuals.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.graphs.arrays.ids import IdSlots, id_slots
from pointstamp.graphs.arrays.slots import Slots, distinct, grown
from pointstamp.graphs.ranks.link_runs import Links, Numbers
from pointstamp.graphs.ranks.out_links import OutLinks
from pointstamp.graphs.ranks.units import RANK_MAX, check_range, units

NONE: Final = -1


class Residuals:
    """The vertices of a worker, and the targets of their links; changed by the operator that owns it."""

    def __init__(self, type_: pa.DataType, damping: float, tolerance: float) -> None:
        self.ids: IdSlots = id_slots(type_)
        self.links = OutLinks()
        self.one: int = units(tolerance)
        self._damping = damping
        self._tolerance = int(tolerance * self.one)
        # By slot: whether the vertex is there and how large its reset is, its rank, the sum of the shares
        # that come in, the number of its links, and the rank that was reported last, or NONE.
        self.is_there, self.resets, self.rank, self.incoming, self.out, self.shown = np.empty(
            (6, 0), np.int64
        )
        self.is_touched, self.is_unsaved = np.empty((2, 0), np.bool_)
        self.pending: Slots = np.empty(0, np.intp)
        """Vertices that lack too much, but not so much that it was pushed in the last round."""

    def slots_of(self, ids: pa.Array) -> Slots:
        """The slots of vertices; for those that are new everything is 0, and nothing has been reported."""
        before = self.ids.count
        slots = self.ids.slots_of(ids)
        if self.ids.count > before:
            for name in (*_NUMBERS, "shown", "is_touched", "is_unsaved"):
                longer = grown(getattr(self, name), before, self.ids.count)
                longer[before:] = NONE if name == "shown" else 0
                setattr(self, name, longer)
        return slots

    def relink(self, links: Links) -> tuple[Slots, Numbers]:
        """Insert and delete links; return the effect on their targets and siblings."""
        sources = distinct(self.ids.count, links.src)
        before = self._shares(sources)
        np.add.at(self.out, links.src, links.weight)
        slots, values = self.links.along(sources, self._shares(sources) - before)
        self.links.add(links)
        new = self._shares(links.src) * links.weight
        return np.concatenate((slots, links.dst)), np.concatenate((values, new))

    def restore_links(self, links: Links) -> None:
        """Begin with these links, whose shares have come in already."""
        np.add.at(self.out, links.src, links.weight)
        self.links.add(links)

    def take_in(self, slots: Slots, incoming: Numbers) -> None:
        """Add to the incoming values; each slot occurs once."""
        self.incoming[slots] += incoming
        self.is_unsaved[slots] = True

    def push(self, slots: Slots, now: int) -> tuple[Slots, Numbers]:
        """Push those of the vertices, and of the pending ones, that lack too much in a round."""
        if len(self.pending):
            slots = distinct(self.ids.count, slots, self.pending)
        wanted = self.resets[slots] * self.one + self.incoming[slots]
        check_range(wanted, self.one)
        lacks = np.abs(wanted - self.rank[slots])
        lacks_too_much = (lacks > self._tolerance) & (lacks > 2 / (1 - self._damping) * self.out[slots])
        is_pushed = lacks_too_much & (lacks > self.one >> min(now + 1, 62))
        self.pending = slots[lacks_too_much & ~is_pushed]
        slots, wanted = slots[is_pushed], wanted[is_pushed]
        before = self._shares(slots)
        self.rank[slots] = wanted
        self.touch(slots)
        change = self._shares(slots) - before
        most = float(np.abs(change).max(initial=0)) * float(self.out[slots].sum())
        slots, values = self.links.along(slots, change)
        if most > RANK_MAX:  # else no sum can be too large
            check_range(np.bincount(slots, np.abs(values)), self.one)
        return slots, values

    def clear(self) -> None:
        """Let all ranks be 0, and what comes in: these are the ranks if there is no reset anywhere."""
        count = self.ids.count
        slots = np.flatnonzero((self.rank[:count] != 0) | (self.incoming[:count] != 0))
        self.rank[slots] = self.incoming[slots] = 0
        self.pending = self.pending[:0]
        self.touch(slots)

    def touch(self, slots: Slots) -> None:
        """Mark vertices as changed, to be reported and saved."""
        self.is_touched[slots] = True
        self.is_unsaved[slots] = True

    def report(self) -> tuple[Slots, Numbers, Numbers]:
        """Return the changes since the last report: vertices, ranks, and insertions or deletions."""
        touched = np.flatnonzero(self.is_touched[: self.ids.count])
        self.is_touched[touched] = False
        # A vertex that is gone has no links, so its rank is worth nothing to anybody.
        self.rank[touched[self.is_there[touched] == 0]] = 0
        before = self.shown[touched]
        now = np.where(self.is_there[touched] > 0, self.rank[touched], NONE)
        self.shown[touched] = now
        goes, comes = ((each != NONE) & (before != now) for each in (before, now))
        slots = np.concatenate((touched[goes], touched[comes]))
        ranks = np.concatenate((before[goes], now[comes]))
        return slots, ranks, np.repeat([-1, 1], [int(goes.sum()), int(comes.sum())])

    def _shares(self, slots: Slots) -> Numbers:
        """What each link of these vertices brings; the only rounding that there is."""
        out = self.out[slots]
        share = np.rint(self._damping * self.rank[slots] / np.maximum(out, 1)).astype(np.int64)
        share[out == 0] = 0
        return share


_NUMBERS: Final = ("is_there", "resets", "rank", "incoming", "out")
