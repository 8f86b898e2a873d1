"""What a simulated world feeds to its workers: each epoch's rows, split and dealt out as the choices say.

Each worker has for each input a script of its own: send these parts, advance to the next epoch, ..., close.
The scripts are independent, so that one worker may be epochs ahead of another, as with real sources. Rows of
one epoch and input have no order among the workers, and the parts that one worker gets have none either.
Every row is fed exactly once, at its epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from pointstamp.check.choices import Choices
from pointstamp.runtime.input import InputHandle

Epochs: TypeAlias = Sequence[pa.RecordBatch]
"""The rows of one input, epoch by epoch; a batch may be empty."""

Dealt: TypeAlias = list[list[list[pa.RecordBatch]]]
"""The parts of one input: for each worker, for each epoch, in the order in which they are to be sent."""

SPLITS_MAX: Final = (1, 3, 8)
"""Into how many parts the rows of an epoch may be split; the world chooses one of these."""


class Script:
    """What one worker's input still has to do; each ``act`` does the next thing."""

    def __init__(self, handle: InputHandle, epochs: list[list[pa.RecordBatch]]) -> None:
        self._handle = handle
        self._epochs = epochs
        self._epoch = 0
        self.is_over = False

    def act(self) -> None:
        """Send one part, or advance to the next epoch, or close after the last one."""
        if self._epoch < len(self._epochs) and self._epochs[self._epoch]:
            self._handle.send(self._epochs[self._epoch].pop(0))
            return
        self._epoch += 1
        if self._epoch < len(self._epochs):
            self._handle.advance_to(self._epoch)
        else:
            self._handle.close()
            self.is_over = True


def deal(inputs: Mapping[str, Epochs], workers: int, choices: Choices) -> dict[str, Dealt]:
    """Split every input and deal the parts to the workers."""
    splits_max = SPLITS_MAX[choices.choose(len(SPLITS_MAX))]
    dealt: dict[str, Dealt] = {}
    for name, epochs in inputs.items():
        dealt[name] = [[[] for _ in epochs] for _ in range(workers)]
        for epoch, batch in enumerate(epochs):
            for part in _split(batch, splits_max, choices):
                parts = dealt[name][choices.choose(workers)][epoch]
                parts.insert(len(parts) - choices.choose(len(parts) + 1), part)
    return dealt


def _split(batch: pa.RecordBatch, splits_max: int, choices: Choices) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if not rows:
        return
    cuts = sorted(1 + choices.choose(rows - 1) for _ in range(choices.choose(min(rows, splits_max))))
    for first, last in zip([0, *cuts], [*cuts, rows], strict=True):
        if first < last:
            yield batch.slice(first, last - first)
