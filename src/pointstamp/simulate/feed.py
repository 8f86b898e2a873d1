"""Feed the rows of each item to simulated workers, split by the choices.

An input is a list of items: item i is epoch i, unless the flow has custom times and each item brings its
time, or the epochs of an input are its event time. Each worker has for each input a script of its own: send
these parts, advance to the next item's time, ..., close. The scripts are independent, so that one worker may
be epochs ahead of another, as with real sources. Rows of one item have no order among the workers, and the
parts that one worker gets have none either. Every row is fed exactly once, at its time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from pointstamp.arrow.epoch_column import by_epoch
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.simulate.network import Choices
from pointstamp.topology.domain import Time
from pointstamp.worker.input import InputHandle


class FedItem(NamedTuple):
    """Rows of one time; the batch may be empty."""

    batch: pa.RecordBatch
    time: Time | None = None
    """None where times are epochs: the number of the item among those that are fed."""

    def root_at(self, position: int) -> Any:  # noqa: ANN401 - a root time of any type
        """The root time of this item where it is fed at this position."""
        return position if self.time is None else self.time[0]


Items: TypeAlias = Sequence[FedItem]
"""The items of one input; times never decrease."""


def in_event_time(plan: Plan, inputs: Mapping[str, Items]) -> dict[str, Items]:
    """The rows of inputs whose epochs are event time, in their epochs; as of one table, none is late."""
    fed = dict(inputs)
    for name, node in plan.named(NodeKind.INPUT).items():
        if node.event_epochs is None or not inputs[name]:
            continue
        rows = pa.concat_batches([item.batch for item in inputs[name]])
        parts = by_epoch(rows, node.event_epochs, node.outputs[0].schema, f"input '{name}'")
        fed[name] = [FedItem(part, (epoch,)) for epoch, part in parts]
    return fed


Dealt: TypeAlias = list[list[list[pa.RecordBatch]]]
"""The parts of one input: for each worker, for each item, in the order in which they are to be sent."""

SPLITS_MAX: Final = (1, 3, 8)
"""Into how many parts the rows of an item may be split; the world chooses one of these."""


class Script:
    """The remaining actions of one worker's input; each ``act`` does the next one."""

    def __init__(self, handle: InputHandle, items: Items, parts: Sequence[Sequence[pa.RecordBatch]]) -> None:
        times = [item.root_at(position) for position, item in enumerate(items)]
        self._acts = _in_order(handle, zip(times, parts, strict=True))
        self.is_over = False

    def act(self) -> None:
        """Send one part, or advance to the time of the next item, or close after the last one."""
        self.is_over = next(self._acts)


def _in_order(handle: InputHandle, timed: Iterable[tuple[Any, Sequence[pa.RecordBatch]]]) -> Iterator[bool]:
    """Do one thing at a time; each says whether it was the last."""
    for time, parts in timed:
        if time != handle.time:
            handle.advance_to(time)
            yield False
        for part in parts:
            handle.send(part)
            yield False
    handle.close()
    yield True


def deal(inputs: Mapping[str, Items], workers: int, choices: Choices) -> dict[str, Dealt]:
    """Split every input and deal the parts to the workers."""
    splits_max = SPLITS_MAX[choices.choose(len(SPLITS_MAX))]
    dealt: dict[str, Dealt] = {}
    for name, items in inputs.items():
        dealt[name] = [[[] for _ in items] for _ in range(workers)]
        for number, item in enumerate(items):
            for part in split(item.batch, splits_max, choices):
                parts = dealt[name][choices.choose(workers)][number]
                parts.insert(len(parts) - choices.choose(len(parts) + 1), part)
    return dealt


def split(batch: pa.RecordBatch, splits_max: int, choices: Choices) -> Iterator[pa.RecordBatch]:
    """The rows in a few parts, cut where the choices say; none where there are no rows."""
    rows = batch.num_rows
    if not rows:
        return
    cuts = sorted(1 + choices.choose(rows - 1) for _ in range(choices.choose(min(rows, splits_max))))
    for first, last in zip([0, *cuts], [*cuts, rows], strict=True):
        if first < last:
            yield batch.slice(first, last - first)
