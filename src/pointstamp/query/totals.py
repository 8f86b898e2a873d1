"""What all workers of a query count together."""

from collections.abc import Sequence


def total_kept(kept: Sequence[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """The rows and bytes that all workers together keep, by name."""
    rows, sizes = (total([{name: pair[at] for name, pair in each.items()} for each in kept]) for at in (0, 1))
    return {name: (count, sizes[name]) for name, count in rows.items()}


def total(counted: list[dict[str, int]]) -> dict[str, int]:
    """The sums by name."""
    sums: dict[str, int] = {}
    for each in counted:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
