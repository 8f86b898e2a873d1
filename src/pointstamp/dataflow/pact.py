"""Pacts: how the batches of a stream are shared among the workers of a consumer.

*Exchange* moves data, *broadcast* here copies it; the broadcast of progress is another thing
(``pointstamp.progress.broadcast``).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Stay:
    """A batch stays on the worker that made it."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ExchangeBy:
    """Each row goes to the worker that owns its key, by a hash that is the same in every process."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class ToEveryWorker:
    """Every worker gets every batch."""

    def __str__(self) -> str:
        return "to every worker"


Pact: TypeAlias = Stay | ExchangeBy | ToEveryWorker

STAY: Final = Stay()
EVERYWHERE: Final = ToEveryWorker()
