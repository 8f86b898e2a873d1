"""The numbers of a query for OpenTelemetry, under the names that Prometheus is told.

``opentelemetry`` is imported on demand. Its instruments ask back when their reader collects;
all of one collection are answered from one look at the query, so that they fit together.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pointstamp.dashboard.prometheus import HELP, Sample
from pointstamp.errors import UsageError
from pointstamp.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

_TOGETHER_SECONDS: Final = 0.5
"""Seconds for which an answer is reused."""


class Telemetry:
    """A query's instruments; told of as long as it is not closed."""

    def __init__(
        self, look: Callable[[], Sequence[Sample]], flow: str, provider: "MeterProvider | None" = None
    ) -> None:
        try:
            from opentelemetry import metrics
        except ImportError as error:
            raise UsageError(
                "query.telemetry() needs the package opentelemetry-api, which is not installed. Install "
                "pointstamp[otel]."
            ) from error
        self._look = look
        self._flow = flow
        self._observation: type[Observation] = metrics.Observation
        self._lock = threading.Lock()
        self._looked: tuple[float, Sequence[Sample]] = (-_TOGETHER_SECONDS, ())
        self._is_open = True
        meter = (provider or metrics.get_meter_provider()).get_meter("pointstamp", __version__)
        for name, (kind, words) in HELP.items():
            counts = kind == "counter"
            make: Any = meter.create_observable_counter if counts else meter.create_observable_gauge
            make(name, [self._told(name)], description=words)

    def close(self) -> None:
        """Stop emitting metrics; closing again does nothing."""
        self._is_open = False

    def __enter__(self) -> "Telemetry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _told(self, name: str) -> "Callable[[CallbackOptions], Iterable[Observation]]":
        def told(options: "CallbackOptions") -> "Iterable[Observation]":
            del options
            return [
                self._observation(number, {"flow": self._flow, **labels})
                for each, labels, number in self._samples()
                if each == name
            ]

        return told

    def _samples(self) -> Sequence[Sample]:
        with self._lock:
            if not self._is_open:
                return ()
            at, samples = self._looked
            if monotonic() - at >= _TOGETHER_SECONDS:
                samples = self._look()
                self._looked = (monotonic(), samples)
            return samples
