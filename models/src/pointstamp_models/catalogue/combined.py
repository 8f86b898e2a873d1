"""The combined tracker before the judge: its instances and its broken variants.

Operations are counted over all workers; each drops, sends and mints at most one capability. A propagation
that would change nothing is not a step: the published transition counts leave it out.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pointstamp_models.catalogue.propagation import line, loop
from pointstamp_models.exploring.entry import Entry, Instance, Mutant
from pointstamp_models.spec.broadcasting import WorkerIndex
from pointstamp_models.spec.combined import CombinedState, CombinedTracker, WholeBatchExchange
from pointstamp_models.spec.exchange import ExchangeState
from pointstamp_models.spec.graph import Graph, counters
from pointstamp_models.spec.model import Label
from pointstamp_models.spec.multiset import ZM
from pointstamp_models.spec.propagating import Configuration

Model = type[CombinedTracker]


def on_line(model: Model = CombinedTracker) -> CombinedTracker:
    """Two workers that begin with a capability for (x, 0) each; x -> y."""
    return model(line(), ([("x", 0)], [("x", 0)]), times=(0, 1), ops=1)


def on_loop(ops: int, workers: int = 2, times: tuple[int, ...] = (0, 1)) -> CombinedTracker:
    """Worker 0 begins with a capability for (x, 0), the others with nothing; x -> y -> x (+1)."""
    caps: list[list[tuple[str, Any]]] = [[("x", 0)], *([] for _ in range(workers - 1))]
    return CombinedTracker(loop(), caps, times=times, ops=ops)


class QuietWhileOperating(WholeBatchExchange):
    """Operations forever, on finitely many states: one at a time, and of few capabilities.

    An operation may start if all workers have received the one before and at most two capabilities exist.
    That restricts operations only; nothing that fairness refers to.
    """

    def operations_left(self, state: ExchangeState) -> int | None:
        """The same number, but only if nothing is in flight."""
        unheard = any(state.temp) or any(queue for row in state.msg for queue in row)
        existing = sum(number for _, number in self.rec(state))
        return None if unheard or existing > 2 else state.ops


class OperatesForEver(CombinedTracker):
    """The tracker under operations that need not end, so that only fairness makes frontiers follow."""

    protocol = QuietWhileOperating


class NeverTrustedToPropagate(OperatesForEver):
    """F3.1: workers send and receive, but need not propagate."""

    def fairness(self) -> Mapping[str, Callable[[CombinedState, Label], bool]]:
        """All classes but those of propagate."""
        return {name: steps for name, steps in super().fairness().items() if "propagate" not in name}


class ShowsEveryStep(CombinedTracker):
    """M3.6: operators see the frontiers after each single propagate step."""

    def propagated(self, conf: Configuration) -> Configuration | None:
        """One worklist entry is absorbed."""
        entry = next(self.propagation.propagations(conf), None)
        return conf if entry is None else self.propagation.propagate(conf, *entry)


class ReceivesBeforeInit(CombinedTracker):
    """M3.7: a worker receives before it has propagated what it began with."""

    def may_receive(self, state: CombinedState, q: WorkerIndex) -> bool:
        """Always."""
        return True


class CountsOneForAll(CombinedTracker):
    """M3.9: a view begins with multiplicity 1 at each initial capability, not with one per worker."""

    def initial_views(self, exchange: ExchangeState) -> tuple[ZM, ...]:
        """Each pointstamp that is there, once."""
        return tuple(tuple((point, 1) for point, _ in view) for view in exchange.glob)


def shows_every_step() -> CombinedTracker:
    """One worker and one location, so that nothing but moving from time 0 to 1 can go wrong."""
    alone: Graph[int, int] = Graph("x", {}, counters())
    return ShowsEveryStep(alone, ([("x", 0)],), times=(0, 1), ops=1)


def for_ever(model: Model = OperatesForEver) -> CombinedTracker:
    """Two workers on the loop, at time 0 only, with operations that need not end."""
    return model(loop(), ([("x", 0)], []), times=(0,), ops=1)


ENTRY: Final = Entry(
    name="combined",
    title="Combined tracker (Brun et al. 2021, section 6)",
    instances=(
        Instance("line, x0 on both workers, 1 operation", on_line, 3_787, 8_614, liveness=True),
        Instance("loop, time 0, operations forever", for_ever, liveness=True),
        Instance("loop, x0 on worker 0 of 2, 1 operation", partial(on_loop, 1), liveness=True),
        Instance("loop, x0 on the only worker, 2 operations", partial(on_loop, 2, workers=1)),
        Instance("loop, x0 on worker 0 of 2, time 0, 2 operations", partial(on_loop, 2, times=(0,))),
        Instance(
            "loop, x0 on worker 0 of 2, 2 operations", partial(on_loop, 2), 471_257, 1_580_730, long=True
        ),
    ),
    mutants=(
        Mutant("M3.6", "expose frontiers in the middle of a propagation", shows_every_step, "SafeCombined"),
        Mutant("M3.7", "recv_upd before init", partial(on_line, ReceivesBeforeInit), "CMEnabled"),
        Mutant(
            "M3.9", "initial multiplicity 1 instead of W", partial(on_line, CountsOneForAll), "SafeCombined"
        ),
        Mutant(
            "F3.1",
            "no fairness of propagate",
            partial(for_ever, NeverTrustedToPropagate),
            "vacant(rec, x0) ~> passed(x0)",
        ),
    ),
)
