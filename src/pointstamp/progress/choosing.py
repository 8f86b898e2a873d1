"""Choose the broadcast of a flow; every worker must choose the same."""

from collections.abc import Sequence
from math import isqrt
from typing import Final, Literal, TypeAlias

from pointstamp.errors import FlowError
from pointstamp.progress.accumulating import BroadcastTree

BroadcastKind: TypeAlias = Literal["direct", "accumulating"]
"""To all workers at once, or along a tree of roots that accumulate."""

BROADCAST_KINDS: Final = ("direct", "accumulating")

ACCUMULATES_FROM: Final = 32
"""With so many workers or more the tree is chosen; docs/benchmarks/scale.md has the measurement."""


def check_broadcast(kind: str | None, flow: str) -> BroadcastKind | None:
    """The kind of broadcast that was asked for; FlowError for one that there is not."""
    if kind is None:
        return None
    if kind == "direct":
        return "direct"
    if kind == "accumulating":
        return "accumulating"
    known = " or ".join(f"'{each}'" for each in BROADCAST_KINDS)
    raise FlowError(
        f"flow '{flow}': broadcast must be {known} or None, got {kind!r}. None chooses by the number of "
        "workers."
    )


def broadcast_tree(
    kind: BroadcastKind | None, workers: int, hosts: Sequence[int] | None = None
) -> BroadcastTree | None:
    """Return the broadcast tree for this many workers; None for the direct broadcast.

    ``hosts`` says where each worker runs. Where it is not known, neighbours in number make groups as many as
    they have members.
    """
    if kind == "direct" or (kind is None and workers < ACCUMULATES_FROM):
        return None
    if hosts is None:
        size = max(1, isqrt(workers - 1) + 1)
        hosts = [worker // size for worker in range(workers)]
    return BroadcastTree(hosts)
