"""What all workers of a query count together."""

from collections.abc import Mapping, Sequence

from pointstamp.state.keeping import KeptRows


def total_kept(kept: Sequence[Mapping[str, KeptRows]]) -> dict[str, KeptRows]:
    """What all workers together keep, by name."""
    sums: dict[str, KeptRows] = {}
    for each in kept:
        for name, more in each.items():
            sums[name] = sums.get(name, KeptRows(0, 0)).plus(more)
    return sums


def total(counted: list[dict[str, int]]) -> dict[str, int]:
    """The sums by name."""
    sums: dict[str, int] = {}
    for each in counted:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
