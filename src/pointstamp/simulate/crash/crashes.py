"""The failures of a simulated world, one function each.

All of it is what processes, machines and storages do: members are lost, a driver is lost between two
operations, a driver is replaced though it lives, or sleeps and is replaced, a storage fails or does not
answer, a driver dies during a recovery, a disk spoils a part of the newest snapshot. Beside any of these the
power may fail: then everything that runs is gone, and with it what was written and not on the disk yet.
"""

from collections.abc import Callable
from typing import Final

from pointstamp.simulate.crash.crew import Life, MemberPlace
from pointstamp.simulate.crash.drivers import Drivers
from pointstamp.simulate.crash.durability import DiedError
from pointstamp.simulate.crash.events import Crashed
from pointstamp.simulate.crash.setting import Doom

_OPERATIONS_MAX: Final = 8
_RECOVERY_OPERATIONS_MAX: Final = 20


def crash(world: Drivers) -> None:
    """Let one thing go wrong; where there is no generation yet, the next recovery is lost."""
    kind = KINDS[world.choices.choose(len(KINDS))]
    life = world.newest
    if life is None or not life.driver_is_alive or world.recover_at is not None:
        _doom(world, _RECOVERY_OPERATIONS_MAX)
    else:
        kind(world, life)
    if world.further.happens(world.features.power_one_in):
        power_fails(world)


def power_fails(world: Drivers) -> None:
    """The machine stops: all processes are gone, and the disk has what is on it."""
    world.powers += 1
    for life in world.lives:
        for place in life.crew.places:
            if place.is_alive:
                _lose(world, life, place)
        life.driver_is_alive = False
    changed = world.storage.lose_power() + world.sink.lose_power()
    generation = -1 if world.newest is None else world.newest.generation
    world.note(generation, Crashed(f"the power failed, and {changed} things are as they were before"))
    world.recover_soon()


def members_die(world: Drivers, life: Life) -> None:
    """Some members are lost, at least one."""
    alive = [place for place in life.crew.places if place.is_alive]
    if not alive:
        return
    chosen = 1 + world.choices.choose(2 ** len(alive) - 1)
    lost = [place for number, place in enumerate(alive) if chosen >> number & 1]
    world.note(life.generation, Crashed(f"workers {', '.join(str(p.number) for p in lost)} died"))
    for place in lost:
        _lose(world, life, place)


def driver_dies(world: Drivers, life: Life) -> None:
    """The driver is lost during its next round, between any two operations."""
    _doom(world, _OPERATIONS_MAX)


def everybody_dies(world: Drivers, life: Life) -> None:
    """All members and the driver are lost at once."""
    world.note(life.generation, Crashed("all processes died"))
    for place in life.crew.places:
        if place.is_alive:
            _lose(world, life, place)
    life.driver_is_alive = False
    world.recover_soon()


def driver_is_replaced(world: Drivers, life: Life) -> None:
    """Another driver takes over while all processes live and do not know of it."""
    world.note(life.generation, Crashed("the driver is replaced and does not know it"))
    world.recover_at = world.clock.ticks


def driver_sleeps(world: Drivers, life: Life) -> None:
    """The driver falls asleep between two operations; another takes over, and then it wakes up."""
    world.sleeps_in = world.choices.choose(_OPERATIONS_MAX)


def recovery_sleeps(world: Drivers, life: Life) -> None:
    """A driver that takes over falls asleep between two operations, and is replaced meanwhile."""
    everybody_dies(world, life)
    world.sleeps_in = world.choices.choose(_RECOVERY_OPERATIONS_MAX)


def recovery_dies(world: Drivers, life: Life) -> None:
    """All are lost, and then the driver that recovers is lost, too."""
    everybody_dies(world, life)
    _doom(world, _RECOVERY_OPERATIONS_MAX)


def storage_fails(world: Drivers, life: Life) -> None:
    """An operation on the storage or the sink fails, or is done and not answered; perhaps in a recovery."""
    fails = ("fail", "no answer")[world.choices.choose(2)]
    after = world.choices.choose(_RECOVERY_OPERATIONS_MAX)
    world.note(life.generation, Crashed(f"after {after} operations the storage: {fails}"))
    world.durability.fails, world.durability.fails_after = fails, after
    if world.choices.choose(2):
        everybody_dies(world, life)


def snapshot_is_damaged(world: Drivers, life: Life) -> None:
    """All are lost, and a part of the newest snapshot is spoiled; there is an older one to go back to."""
    commits = life.begun.ledger.commits
    if len(commits) > 1 and world.damaged is None:
        parts = commits[-1].parts
        name = parts[world.choices.choose(len(parts))].name
        world.note(life.generation, Crashed(f"'{name}' is damaged"))
        world.damaged = name
        world.user.savepoints.clear()  # one of them may hold that part, and nobody can help it
        world.storage.damage(name)
    everybody_dies(world, life)


KINDS: Final[tuple[Callable[[Drivers, Life], None], ...]] = (
    members_die,
    everybody_dies,
    driver_dies,
    driver_is_replaced,
    driver_sleeps,
    recovery_sleeps,
    recovery_dies,
    storage_fails,
    snapshot_is_damaged,
)


def _doom(world: Drivers, operations_max: int) -> None:
    world.doomed = Doom(world.choices.choose(operations_max), bool(world.choices.choose(2)))


def _lose(world: Drivers, life: Life, place: MemberPlace) -> None:
    """A member dies; what it was writing is done, cut off between two operations, or not done."""
    jobs, durability = place.scribe.jobs, world.durability
    life.crew.lose(place)
    durability.dies_after, durability.dies_late = world.choices.choose(4), bool(world.choices.choose(2))
    try:
        for job in list(jobs):
            job()
    except DiedError:
        pass
    finally:
        durability.dies_after = None
        jobs.clear()
