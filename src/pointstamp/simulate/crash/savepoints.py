"""Start a simulated query from a savepoint of another one.

By then the first query has continued for long, has forgotten old snapshots and removed what it needs no more;
every savepoint that was answered must still be there. The second query has a storage and a sink of its own,
crashes of its own, and the same sources. It must publish what the first would have published after that
epoch, had it taken the same ticks: the first one's up to the savepoint, and then its own.
"""

from typing import Final

from pointstamp.errors import RecoveryError
from pointstamp.journal.history import Entry, Savepoint
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.simulate.crash.setting import CrashRun, KeptChoices
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.world import Ended

_CRASHES: Final = (0, 1, 2)


def run_with_successor(world: CrashWorld, *, steps_max: int) -> CrashRun:
    """Let a world happen, and then what begins with one of its savepoints, if there are any."""
    run = world.run()
    answered = world.user.savepoints
    if run.ended is not Ended.COMPLETE or not answered:
        return run
    names = sorted(answered)
    name = names[world.further.choose(len(names))]
    try:
        savepoint = _found(world, name)
    except RecoveryError as error:
        run.ended, run.error, run.reason = Ended.FAILED, error, str(error)
        return run
    successor = type(world)(
        world.spec.plan,
        world.feed.inputs,
        workers=world.spec.workers,
        crashes=_CRASHES[world.further.choose(len(_CRASHES))],
        seed=0,
        steps_max=steps_max,
        begins_with=KeptChoices(world, name),
    )
    known = dict.fromkeys(world.feed.columns, savepoint.open_from)
    successor.user.said, successor.user.asked = dict(known), dict(known)
    run.successor = after = successor.run()
    after.since = savepoint.commits[-1].epoch
    before = {number: tick for number, tick in run.ticks.items() if number <= savepoint.last_tick}
    after.fed = world.feed.items_of([tick for _, tick in sorted({**before, **after.ticks}.items())])
    run.choices = after.choices
    return run


def _found(world: CrashWorld, name: str) -> Savepoint:
    """The savepoint as the journal has it; it must not be older than the answer said."""
    world.durability.stand_aside()
    journal: Journal[Entry] = Journal.open(world.storage, Entry, query=world.spec.query_id)
    savepoints = Ledger(journal, world.spec.sources).savepoints
    epoch = world.user.savepoints[name]
    for savepoint in savepoints:
        if savepoint.name == name and savepoint.commits[-1].epoch >= epoch:
            return savepoint
    there = ", ".join(f"'{each.name}' of epoch {each.commits[-1].epoch}" for each in savepoints) or "none"
    raise RecoveryError(f"savepoint '{name}' was taken at epoch {epoch}, but the journal has {there}.")
