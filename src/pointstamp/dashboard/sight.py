"""The port of the dashboard to what it shows: a query, a checkpoint, a trace."""

from typing import Any, Protocol, TypeAlias

from pointstamp.errors import PointstampError

Json: TypeAlias = dict[str, Any]
"""Plain data, as JSON has it."""


class SightError(PointstampError):
    """What the page asked for cannot be had; the message says why."""


class Sight(Protocol):
    """Something that a dashboard shows; every method may be called from any thread."""

    @property
    def is_over(self) -> bool:
        """Whether it shows a query that has ended: a dashboard of the same process may take its port."""
        ...

    def about(self) -> Json:
        """What never changes: its kind and title, the graph, what the page may do."""
        ...

    def moment(self) -> Json:
        """Return the latest known state; request newer data without waiting for it."""
        ...

    def history(self, since: float) -> Json:
        """What has happened since a time, in seconds since 1970; with 0, all that is kept."""
        ...

    def why(self, output: str) -> Json:
        """What holds an output back, as text and as the way from there; SightError for an unknown one."""
        ...

    def metrics(self) -> str:
        """The numbers for machines, as Prometheus reads them."""
        ...

    def act(self, what: str, given: str) -> str:
        """Do what a person has confirmed, and say what was done; SightError where that is refused."""
        ...
