"""Spare crews: ready workers that a driver takes over after a failure.

The members of a spare crew are started, have loaded everything and have met, but they belong to no generation
yet: of their mission they lack what only the beginning of a generation decides. That comes as an order, when
the crew before is lost. Nothing is unpickled, and nothing is read or written before.

Invariant: every member has joined the generation before any of them sends a message of it. So the driver asks
all to join (``TakeOver``), hears from all that they have (``Joined``), and only then lets them begin
(``SetOut``). A driver that loses a member before that may start another crew in the same generation: of this
one that no worker has begun.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Final

from pointstamp.driver.messages import (
    DRIVER,
    Failed,
    Joined,
    Leave,
    SetOut,
    TakeOver,
    error_of,
    order_in,
    post,
    report_in,
    unfit,
)
from pointstamp.errors import PointstampError, TransportError
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.query.mission import Mission

JOIN_SECONDS_MAX: Final = 10.0
"""Timeout for standby members to join a generation."""

_JOIN_LOOK_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of a standby member for lost peers; an order wakes it at once."""


def stand_by(mission: Mission, mesh: Mesh) -> Mission | None:
    """Wait for the driver's orders; return the mission that it gives, or None if no worker is needed."""
    usual, mesh.check_seconds = mesh.check_seconds, _LOOK_SECONDS
    early: list[Parcel] = []  # of peers that were let begin a moment before this member
    while True:
        mesh.wait(inf)
        parcels = mesh.collect()
        for number, parcel in enumerate(parcels, start=1):
            if parcel.sender != mission.workers:
                early.append(parcel)
                continue
            match order_in(parcel):
                case TakeOver() as order:
                    mission = _joining(mission, order)
                    mesh.generation = order.generation
                    post(mesh, mission.workers, Joined())
                case SetOut():
                    mesh.put_back([*early, *parcels[number:]])
                    mesh.check_seconds = usual
                    return mission
                case Leave():
                    return None
                case order:
                    raise unfit(DRIVER, order)


def _joining(mission: Mission, order: TakeOver) -> Mission:
    return replace(
        mission,
        generation=order.generation,
        chain=order.chain,
        published_through=order.published_through,
        is_observed=order.is_observed,
    )


def unbound(mission: Mission) -> Mission:
    """A mission without what only the beginning of a generation decides: what a spare crew is sent with."""
    return replace(mission, chain=(), published_through=-1, is_observed=False)


def join(mesh: Mesh, mission: Mission, check: Callable[[], None]) -> None:
    """Let all members that stand by join the generation of a mission; they wait to set out.

    ``check`` raises what is known otherwise about the end of a member. On any error no worker has begun.
    """
    chain = [list(link) for link in mission.chain]
    order = TakeOver(mission.generation, chain, mission.published_through, mission.is_observed)
    # Before the generation changes: what a member of the one before has said is dropped from then on.
    _joined(mesh)
    for worker in range(mission.workers):
        post(mesh, worker, order)
    mesh.generation = mission.generation
    awaited = set(range(mission.workers))
    deadline = monotonic() + JOIN_SECONDS_MAX
    while awaited:
        awaited -= _joined(mesh)
        check()
        if monotonic() > deadline:
            raise TransportError(
                f"worker {min(awaited)} of the spare crew has not joined within {JOIN_SECONDS_MAX:g} seconds."
            )
        if awaited:
            mesh.wait(_JOIN_LOOK_SECONDS)


def _joined(mesh: Mesh) -> set[int]:
    """The members that report that they have joined; an error for any other report."""
    joined: set[int] = set()
    for parcel in mesh.collect():
        report = report_in(parcel)
        if isinstance(report, Failed):
            raise error_of(report)
        if not isinstance(report, Joined):
            raise unfit(f"worker {parcel.sender}", report)
        joined.add(parcel.sender)
    return joined


def set_out(mesh: Mesh, workers: int) -> None:
    """Let all members begin, after all have joined."""
    for worker in range(workers):
        post(mesh, worker, SetOut())


def dismiss(mesh: Mesh, workers: int) -> None:
    """Tell members to leave, those that can still be told."""
    for worker in range(workers):
        with suppress(PointstampError):
            post(mesh, worker, Leave())
