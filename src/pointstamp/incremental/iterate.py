"""The feedback of a loop of tables: the consolidated change of each round, and the limit of rounds.

The value of a variable in the next round is what the body made of it in this one. Rounds that change nothing
send nothing, and so the loop ends. A body that swings between two results never does; ``max_rounds`` makes
that an error, which shows what went round in the last two rounds.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.errors import LoopError
from pointstamp.incremental.stateless import Consolidated
from pointstamp.operators.context import Context
from pointstamp.topology.domain import Time

_SHOWN_ROWS_MAX: Final = 3
_REMEMBERED_MAX: Final = 8
"""Rounds of so many times outside the loop are remembered; an older one is shown without the round before."""
_COPIES_MAX: Final = 2**30
"""A row that goes round more often raises: its number doubles with each round, and would soon overflow."""


class GoingRound(Consolidated):
    """Sends the sum of a round's changes; LoopError where they would go round once too often."""

    def __init__(self, loop: str, rounds_max: int | None) -> None:
        super().__init__()
        self._loop = loop
        self._rounds_max = rounds_max
        self._before: dict[Time, str] = {}

    def on_notify(self, context: Context) -> None:
        """Send the sum, if there is a round in which it may come out."""
        for change in self._open.take(context.time).values():
            self._check_copies(context.time, change)
            if self._rounds_max is not None:
                self._check(context.time, change, self._rounds_max)
            context.send(change)

    def _check_copies(self, time: Time, change: pa.RecordBatch) -> None:
        """Raise LoopError before the number of a row, or what a join makes of it, overflows."""
        copies = np.abs(change.column(DIFF).to_numpy())
        if len(copies) and (most := int(copies.max())) > _COPIES_MAX:
            [row] = change.slice(int(copies.argmax()), 1).to_pylist()
            row.pop(DIFF)
            raise LoopError(
                f"loop '{self._loop}': round {time[-1]} of epoch {time[0]} has {most:,} copies of {row}, and "
                f"can have {_COPIES_MAX:,}. Use UNION in place of UNION ALL, or a condition that ends the "
                "recursion."
            )

    def _check(self, time: Time, change: pa.RecordBatch, rounds_max: int) -> None:
        outside, now = time[:-1], time[-1]
        shown = _shown(change)
        if now + 1 >= rounds_max:
            before = self._before.get(outside)
            first = "" if before is None else f"In round {now - 1} {before} went round, and in"
            raise LoopError(
                f"loop '{self._loop}' has not converged in {rounds_max} rounds of epoch {time[0]}. "
                f"{first or 'In'} round {now} {shown}. Raise max_rounds if it needs more. A body that "
                "alternates between two results never converges: let it only insert rows, or only delete "
                "rows."
            )
        self._before.pop(outside, None)
        self._before[outside] = shown
        if len(self._before) > _REMEMBERED_MAX:
            del self._before[next(iter(self._before))]


def _shown(change: pa.RecordBatch) -> str:
    """The first rows of a change as text: which appear, and which disappear."""
    parts = []
    for row in change.slice(0, _SHOWN_ROWS_MAX).to_pylist():
        weight = row.pop(DIFF)
        parts.append(f"{weight:+} of {row}")
    more = change.num_rows - len(parts)
    return ", ".join(parts) + (f" and {more} more rows" if more > 0 else "")
