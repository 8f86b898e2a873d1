"""Check the byte limit of a tick."""

from pointstamp.errors import FlowError
from pointstamp.sources.port import Unit


def check_bytes_per_tick(who: str, bytes_per_tick: int | None) -> None:
    """FlowError unless it is a number of bytes, or None."""
    if bytes_per_tick is not None and bytes_per_tick < 1:
        raise FlowError(
            f"{who}: bytes_per_tick must be at least 1, got {bytes_per_tick}. Give a larger number, or "
            "None for no limit."
        )


def share_of_bytes(unit: Unit, bytes_per_tick: int | None) -> float:
    """Return the share of one tick that a unit takes; 0 without a limit.

    >>> from pointstamp.sources.port import Part
    >>> share_of_bytes(Unit("a", (Part("x", 30), Part("y", 20))), 100)
    0.5
    """
    return 0.0 if bytes_per_tick is None else sum(part.size_bytes for part in unit.parts) / bytes_per_tick


def units_with_bytes(units_per_tick: int | None, bytes_per_tick: int | None) -> int | None:
    """Return the maximum number of units per tick: unlimited if bytes are limited."""
    return None if bytes_per_tick is not None and units_per_tick == 1 else units_per_tick
