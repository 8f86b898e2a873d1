"""Pacts: how the batches of a stream are shared among the workers of a consumer.

*Exchange* moves data, *broadcast* here copies it; the broadcast of progress is another thing
(``pointstamp.progress.broadcast``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

ShardFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Gives the shard of each row of a batch: whole numbers from 0 on, as an Arrow or numpy array or a list."""


@dataclass(frozen=True, slots=True)
class StayHere:
    """A batch stays on the worker that made it."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ExchangeBy:
    """Each row goes to the worker that owns its key, by a hash that is the same in every process."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeByFunction:
    """Each row goes to the worker of its shard, ``shard % workers``, and a function of rows says the shard.

    This is the shard function that a port may have in Brun et al. (2021, section 2). It must give a row the
    same shard in every batch and in every process.
    """

    function: ShardFunction
    columns: pa.Schema | None = None
    """What the function is given, so that a shard can be computed again; None for whole rows."""

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        named = "a function" if name == "<lambda>" else name
        return f"by {named}" + ("" if self.columns is None else f" of {', '.join(self.columns.names)}")

    def deals_as(self, other: "ExchangeByFunction") -> bool:
        """Whether both bring rows with the same values to the same worker."""
        mine, theirs = self.columns, other.columns
        if mine is None or theirs is None:
            return self.function is other.function and mine is theirs
        return self.function is other.function and mine.types == theirs.types


@dataclass(frozen=True, slots=True)
class ToEveryWorker:
    """Every worker gets every batch."""

    def __str__(self) -> str:
        return "to every worker"


Pact: TypeAlias = StayHere | ExchangeBy | ExchangeByFunction | ToEveryWorker

STAY: Final = StayHere()
EVERYWHERE: Final = ToEveryWorker()
