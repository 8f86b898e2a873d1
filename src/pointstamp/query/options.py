"""The options of a query."""

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
        epoch (str | Mapping[str, str], default None): The column that has the epoch of each row; a mapping
            names one for each input.
        snapshots (SnapshotPolicy, default None): How often snapshots are taken. Default: after every epoch.
        restarts (RestartPolicy, default None): How often the query restarts after failures.
        accept_changes (bool, default False): Accept the checkpoint of a flow with other outputs or functions.
        savepoint (tuple[path, str], default None): Start a new checkpoint from a savepoint of another one:
            its path and the name of the savepoint.
        silence_seconds_max (float, default 10): Seconds without a sign of life after which a worker counts as
            lost.
        verify (bool, default False): Verify every step of the workers, while they run, against the models
            that the runtime implements. An epoch is published after it was verified; a wrong step ends the
            query.
        tick_every (str | timedelta, default None): Make an epoch of everything that arrives in this time,
            such as ``"1 second"``, also if nothing arrives.
        dashboard (bool | int, default False): True or a port: serve a page that shows the query, and print
            its address.
        dashboard_token (str, default None): The token of that address. Default: a random one.
        spare_crew (bool, default False): On Spark: keep a second set of workers ready, which takes over if a
            worker is lost. It uses the same number of slots again, as long as the query runs.
        min_workers (int, default None): On Spark: the number of workers with which the flow can run. Default:
            1.
        rescale (str, default "restart"): On Spark: use more executors at the next restart, or ``"eager"``, at
            once.
        barrier (bool, default False): On Spark: start the workers as one barrier stage, all or none.
        in_driver (bool, default False): On Spark: with ``workers=1``, run the flow in the driver process.
        pushdown (bool, default True): For ``run`` on Spark: let Spark execute the operators directly
            downstream of an input that have the same meaning there; ``describe`` shows them.

    Examples:
        >>> ps.QueryOptions(snapshots=ps.SnapshotPolicy(epochs=10)).snapshots.epochs
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
        """Reject options that only a query on Spark has."""
        if given := [name for name in self._set() if name in _ON_SPARK]:
            raise FlowError(
                f"flow '{flow}': option {given[0]} needs Spark. Remove it, or give on= a SparkSession."
            )

    def check_run(self, flow: str) -> None:
        """Reject options that a run to the end of its inputs does not have."""
        if given := [name for name in self._set() if name not in _OF_RUNS]:
            raise FlowError(
                f"flow '{flow}': option {given[0]} is only for start(). Remove it, or use "
                "start(available_now=True)."
            )

    def _set(self) -> list[str]:
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]
