"""What a query is told besides its inputs, its checkpoint and its output."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from pointstamp.dashboard.server import chosen_token
from pointstamp.errors import FlowError
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy

_Place: TypeAlias = str | os.PathLike[str]
_ON_SPARK: Final = ("spare_crew", "min_workers", "rescale", "barrier", "in_driver")
_OF_RUNS: Final = ("silence_seconds_max", "pushdown", "min_workers", "barrier", "in_driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """The options of ``flow.start``, and those of ``flow.run`` on Spark.

    Attributes:
        epoch: The column that holds the epoch of each row; a mapping says it for each input.
        snapshots: How often snapshots are taken. Default: after every epoch.
        restarts: How often the query starts again after failures.
        accept_changes: Whether a checkpoint of a flow with other outputs or other functions is accepted.
        savepoint: Begin a new checkpoint with a savepoint of another one: its path and the savepoint's name.
        silence_seconds_max: A worker that is silent for so long is taken for dead.
        verify: Judge everything that the workers do while they do it, against the models that the runtime
            implements. An epoch is published after it was found right; a wrong step ends the query.
        tick_every: Epochs are ticks of a clock, such as ``"1 second"``: one each time, with everything that
            came since the last one, and also where nothing came.
        dashboard: True or a port: serve a page that shows the query, and print its address.
        dashboard_token: The token of that address. Default: a random one.
        spare_crew: On Spark: a second crew stands by, which takes the place of one that has lost a worker.
            It takes as many slots again, as long as the query runs.
        min_workers: On Spark: the number of workers with which the flow runs. Default: 1.
        rescale: On Spark: whether more executors are used when the query restarts, or at once.
        barrier: On Spark: the workers are one barrier stage, all or none.
        in_driver: On Spark: with ``workers=1``, the flow runs in the driver's process.
        pushdown: For ``run`` on Spark: Spark itself does what stands directly behind an input and means the
            same there; ``describe`` shows it. With False the workers do everything.

    >>> QueryOptions(snapshots=SnapshotPolicy(epochs=10)).snapshots.epochs
    10

    """

    epoch: str | Mapping[str, str] | None = None
    snapshots: SnapshotPolicy | None = None
    restarts: RestartPolicy | None = None
    accept_changes: bool = False
    savepoint: tuple[_Place, str] | None = None
    silence_seconds_max: float = SILENCE_SECONDS_MAX
    verify: bool = False
    tick_every: str | timedelta | None = None
    dashboard: bool | int = False
    dashboard_token: str | None = None
    spare_crew: bool = False
    min_workers: int | None = None
    rescale: Literal["restart", "eager"] = "restart"
    barrier: bool = False
    in_driver: bool = False
    pushdown: bool = True

    def check_dashboard(self, flow: str) -> None:
        """Reject a token that cannot be used, before the query starts."""
        if self.dashboard is not False:
            chosen_token(self.dashboard_token)
        elif self.dashboard_token is not None:
            raise FlowError(
                f"flow '{flow}': dashboard_token= is set, but dashboard= is not. Set dashboard=True, or a "
                "port."
            )

    def check_local(self, flow: str) -> None:
        """Reject what only a query on Spark has."""
        if given := [name for name in self._set() if name in _ON_SPARK]:
            raise FlowError(
                f"flow '{flow}': the option {given[0]} was set for a query without Spark, which has no "
                "slots to ask for. Remove it, or give on= a SparkSession."
            )

    def check_run(self, flow: str) -> None:
        """Reject what a run to the end of its inputs does not have."""
        if given := [name for name in self._set() if name not in _OF_RUNS]:
            raise FlowError(
                f"flow '{flow}': the option {given[0]} is for queries, and was given to run(). Remove it, or "
                "use start(available_now=True)."
            )

    def _set(self) -> list[str]:
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]
