"""Inputs that have fallen silent: since when, and whether event time may pass without them.

Event time passes where every input has promised that it has: an input from which nothing comes holds all the
others back. A user may say of an input for how long it may be silent (``idle=``). After so long it counts for
nothing, until something comes from it again; what is behind the others by then is late, and goes where late
rows go.

Silence is the one thing about event time that a clock decides. So it is decided here alone, at the driver,
and takes effect in a tick, which is in the journal: whoever reads the tick again asks no clock. A new driver
is patient again.

Invariant: an input with units that wait, or that are being read, is not silent.
"""

from collections.abc import Collection, Mapping


class Silence:
    """Since when each input is silent; changed by the coordinator, which tells it the time."""

    def __init__(
        self, inputs: Collection[str], idle_seconds: Mapping[str, float], now_seconds: float
    ) -> None:
        self.names = frozenset(inputs)
        self._heard_seconds = dict.fromkeys(inputs, now_seconds)
        self._idle_seconds = idle_seconds
        self.inputs: frozenset[str] = frozenset()
        """The inputs without which event time passes."""

    def look(self, heard: Collection[str], now_seconds: float) -> None:
        """Take note of the inputs from which something has come, and of those that are silent too long."""
        self._heard_seconds.update(dict.fromkeys(heard, now_seconds))
        self.inputs = frozenset(
            name
            for name, seconds in self._idle_seconds.items()
            if now_seconds - self._heard_seconds[name] >= seconds
        )

    def seconds_until_due(self, now_seconds: float) -> float | None:
        """The seconds until the next input is silent for too long; None where that is not expected."""
        due = [
            self._heard_seconds[name] + seconds - now_seconds
            for name, seconds in self._idle_seconds.items()
            if name not in self.inputs
        ]
        return max(0.0, min(due)) if due else None

    def seconds_of(self, name: str, now_seconds: float) -> float:
        """For how long nothing has come from an input."""
        return now_seconds - self._heard_seconds[name]

    def idle_seconds_of(self, name: str) -> float | None:
        """For how long an input may be silent before event time passes without it; None: for ever."""
        return self._idle_seconds.get(name)
