"""The accumulating broadcast before the judge: its instances, and variants with one change each.

The numbers of states are this model's own: no paper has published one. They are listed so that a guard that
becomes a little weaker or stronger is noticed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from pointstamp_models.catalogue.exchange import A, B
from pointstamp_models.exploring.entry import Entry, Instance, Mutant
from pointstamp_models.spec.accumulating import TOP, Accumulating, AccumulatingState, Sum
from pointstamp_models.spec.broadcasting import Queue, WorkerIndex
from pointstamp_models.spec.model import Invariant, Label
from pointstamp_models.spec.multiset import EMPTY, ZM, chain, count, covered, plus

TWO_HOSTS: Final = (0, 1)
"""Two hosts with one worker each: both are roots, and worker 0 is the top."""
ONE_HOST: Final = (0, 0)
"""Worker 1 is not a root; worker 0 is its root and the top."""
TWO_AND_ONE: Final = (0, 1, 1)
"""Workers 1 and 2 are on one host, of which worker 1 is the root."""


class OneHost(Accumulating):
    """Without a root below the top."""

    def witnesses(self) -> Mapping[str, Invariant[AccumulatingState]]:
        """Nothing is held below the top by a root; a worker holds."""
        return {"SumOfTwo": self.has_sum_of_two, "WorkerHolds": self.worker_holds}

    def worker_holds(self, state: AccumulatingState) -> bool:
        """A worker has something to tell, and need not."""
        return bool(state.temp[1]) and self.worker_may_hold(state.glob[1], state.temp[1])


class StartedAgain(Accumulating):
    """With one restart after the last operation: nothing of before is in flight, and all views are exact.

    Fewer than no operations are left then, so that a state says whether it has been.
    """

    def steps(self, state: AccumulatingState) -> Iterator[tuple[Label, AccumulatingState]]:
        """The others, and the restart when all operations are done."""
        yield from super().steps(state)
        if state.ops == 0:
            yield ("restart",), self.restarted(state)

    def restarted(self, state: AccumulatingState) -> AccumulatingState:
        """A state in which every view is exact; operations are over."""
        return self.at_rest(self.abstract(state))._replace(ops=-1)

    def refines(self, before: AccumulatingState, label: Label, after: AccumulatingState) -> bool:
        """A restart begins a run again."""
        return label[0] == "restart" or super().refines(before, label, after)


class KeepsWhatRootsHeld(StartedAgain):
    """MA.1: a root goes into the next generation with what it held in this one."""

    def restarted(self, state: AccumulatingState) -> AccumulatingState:
        """All but the roots restart from scratch."""
        return super().restarted(state)._replace(held=state.held)


class MinusBeforePlus(Accumulating):
    """MA.2: the top sends what has become less before what has become more."""

    def sums_down(self, parts: Sum) -> Iterable[Sum]:
        """Two sums."""
        less = tuple((w, tuple(item for item in batch if item[1] < 0)) for w, batch in parts)
        more = tuple((w, tuple(item for item in batch if item[1] > 0)) for w, batch in parts)
        return (less, more)


class TakesTheNewestFirst(Accumulating):
    """MA.3: a root takes the newest batch of a worker first."""

    def takes(self, queue: Queue) -> int:
        """The last one."""
        return len(queue) - 1


class RootsHoldAsTheTopDoes(Accumulating):
    """MA.4: the root of a host waits while its view still counts a point."""

    def root_may_hold(self, view: ZM, held: ZM) -> bool:
        """The rule of the top."""
        return self.top_may_hold(view, held)


class PointsCoverThemselves(Accumulating):
    """MA.5: a change counts as covered by its own point."""

    def is_covered(self, view: ZM, held: ZM) -> bool:
        """At or below each change something is counted."""
        return all(covered(self.order, view, point) or count(view, point) > 0 for point, _ in held)


class ForgetsAHost(Accumulating):
    """MA.6: the top sends nothing to worker 1."""

    def hearers(self) -> Iterable[WorkerIndex]:
        """All but one."""
        return [q for q in self.workers if q != 1]


class HearsItselfTwice(Accumulating):
    """MA.7: a worker applies what it tells at once, and again when it hears the sum."""

    def on_telling(self, view: ZM, batch: ZM) -> ZM:
        """With the batch."""
        return plus(view, batch)


class DropsWhatItAdds(Accumulating):
    """MA.8: when the top takes a sum, what it held is lost."""

    def broadcast_steps(self, state: AccumulatingState) -> Iterator[tuple[Label, AccumulatingState]]:
        """Only that sum is left."""
        for label, after in super().broadcast_steps(state):
            if label[0] == "take_sum":
                lost = (*after.held[:TOP], state.sums[label[1]][0], *after.held[TOP + 1 :])
                yield label, after._replace(held=lost)
            else:
                yield label, after


_ON_BOTH: Final = (A, A)

ENTRY: Final[Entry] = Entry(
    name="accumulating",
    title="Accumulating broadcast (Murray et al. 2013, over Brun et al. 2021)",
    instances=(
        Instance(
            "two hosts, chain a<b, 2 operations",
            partial(Accumulating, chain("ab"), TWO_HOSTS, _ON_BOTH, ops=2),
            4_829,
            11_378,
            liveness=True,
        ),
        Instance(
            "one host, chain a<b, 2 operations",
            partial(OneHost, chain("ab"), ONE_HOST, _ON_BOTH, ops=2),
            3_086,
            7_457,
        ),
        Instance(
            "two hosts, started again",
            partial(StartedAgain, chain("ab"), TWO_HOSTS, _ON_BOTH, ops=2),
            5_174,
            16_356,
        ),
        Instance(
            "three workers on two hosts, 2 operations",
            partial(Accumulating, chain("ab"), TWO_AND_ONE, (A, A, EMPTY), ops=2),
            long=True,
        ),
        Instance(
            "two hosts, chain a<b, 3 operations",
            partial(Accumulating, chain("ab"), TWO_HOSTS, (A, EMPTY), ops=3),
            long=True,
        ),
    ),
    mutants=(
        Mutant(
            "MA.1",
            "a root keeps what it held over a restart",
            partial(KeepsWhatRootsHeld, chain("ab"), TWO_HOSTS, (A, B), ops=1),
            "RecordCount",
        ),
        Mutant(
            "MA.2",
            "the top sends minus before plus",
            partial(MinusBeforePlus, chain("ab"), TWO_HOSTS, (A, EMPTY), ops=2),
            "GlobVacImpRecVac",
        ),
        Mutant(
            "MA.3",
            "a root takes the newest batch first",
            partial(TakesTheNewestFirst, chain("ab"), ONE_HOST, (EMPTY, A), ops=2),
            "Refines",
        ),
        Mutant(
            "MA.4",
            "roots of hosts hold as the top does",
            partial(RootsHoldAsTheTopDoes, chain("ab"), TWO_HOSTS, _ON_BOTH, ops=2),
            "ExactAtRest",
        ),
        Mutant(
            "MA.5",
            "a point covers itself",
            partial(PointsCoverThemselves, chain("ab"), TWO_HOSTS, (EMPTY, A), ops=1),
            "ExactAtRest",
        ),
        Mutant(
            "MA.6",
            "the top forgets a host",
            partial(ForgetsAHost, chain("ab"), TWO_HOSTS, (A, EMPTY), ops=1),
            "RecordCount",
        ),
        Mutant(
            "MA.7",
            "a worker hears itself twice",
            partial(HearsItselfTwice, chain("ab"), ONE_HOST, (EMPTY, A), ops=1),
            "RecordCount",
        ),
        Mutant(
            "MA.8",
            "the top drops what it held when it takes a sum",
            partial(DropsWhatItAdds, chain("ab"), TWO_HOSTS, _ON_BOTH, ops=2),
            "RecordCount",
        ),
    ),
)
