"""The broadcast of progress to all workers, as state machines without I/O.

A worker gathers what its operators did (``record``: one call per activation, complete), and sends everything
that has gathered to all workers, itself included, as one ``ProgressBatch`` (``flush``). Batches of one
sender carry gapless sequence numbers and arrive in order; a gap or a repetition means that counts would be
wrong forever, so it is an error and never a guess (Brun et al. 2021, section 4; the timely book,
"Maintaining Capabilities").

Sending everything at once leaves nothing behind that could lack its justification, which makes every flush
a legal ``send_upd`` of the exchange protocol.

The broadcast stands behind the ``Broadcast`` protocol, so that one that accumulates before it sends
(``pointstamp.progress.accumulating``) can take the place of the full mesh (``pointstamp.progress.direct``).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from pointstamp.errors import ProgressError
from pointstamp.progress.pointstamp import Change, WorkerIndex


class ProgressBatch(NamedTuple):
    """Changes that one worker made, to be applied together; ``sequence`` counts a sender's batches from 0."""

    sender: WorkerIndex
    sequence: int
    changes: tuple[Change, ...]


class Broadcast(Protocol):
    """The broadcast interface of a worker; the driver moves the batches."""

    def record(self, changes: Iterable[Change]) -> None:
        """Take in all changes of one activation: consumed, held and sent together."""
        ...

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """Return the batches to send now with their receivers, self included."""
        ...

    def receive(self, batch: ProgressBatch) -> tuple[Change, ...] | None:
        """Accept a batch and return the changes to apply; None if it is only forwarded."""
        ...

    def has_relay(self) -> bool:
        """Return whether something came that others may wait for, so that the next flush should come soon."""
        ...

    def look_again(self) -> None:
        """Frontiers have moved; for a broadcast that holds back what moves none."""
        ...

    def unsent(self) -> tuple[Change, ...]:
        """Return the gathered changes that were not sent yet, for observers."""
        ...


def out_of_order(worker: WorkerIndex, batch: ProgressBatch, expected: int) -> ProgressError:
    """The error that a gap or a repetition in a sender's batches is."""
    what = "lost" if batch.sequence > expected else "delivered twice"
    return ProgressError(
        f"worker {worker} received progress batch {batch.sequence} from worker {batch.sender}, "
        f"but expected batch {expected}: a batch was {what}. The channel between workers must be "
        "reliable and in order; restart the job from its last snapshot."
    )
