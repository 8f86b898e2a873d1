"""Recovery: from the stored state to the start of a generation.

Taking the journal over fences every older driver. What was committed, but may not have been published, is
published again; the newest snapshot is found, or the newest complete one where a member has found one
damaged; files that no commit names are removed. This is the recovery of Veresov et al. 2024 at the driver,
step by step, without a clock, a thread or a crew: the supervisor runs it, and the simulated world crashes it
between any two steps.

It keeps the invariant of the journal: a driver that returns from here is the only one that can commit.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pointstamp.connectors.sink import Publisher, Sink, StagedLost, complete_publisher, complete_sink
from pointstamp.connectors.source import Position, Source, Unit, complete_source
from pointstamp.errors import DamagedSnapshot, NotStored, RecoveryError, StorageError
from pointstamp.flow.plan import NodeKind
from pointstamp.journal.entries import Generation
from pointstamp.journal.flow_shape import check_outputs, check_shape, published_schemas, resumed_shape
from pointstamp.journal.history import Entry, FlowShape, PartSaved, SnapshotChain, stored_shape
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.journal.snapshot_parts import whole_part
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.mission import Mission, QuerySpec
from pointstamp.query.savepoints import adopt_savepoint, check_savepoint, remove_unneeded

_log = logging.getLogger("pointstamp.query")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The initial state of a generation."""

    generation: Generation
    ledger: Ledger
    publisher: Publisher
    chain: SnapshotChain | None
    mission: Mission

    def coordinator(self, spec: QuerySpec, now_seconds: float, *, workers: int | None = None) -> Coordinator:
        """The coordinator of this generation, with so many workers (default: `spec.workers`)."""
        return Coordinator(
            self.ledger,
            self.publisher,
            spec.workers if workers is None else workers,
            # A tick of a clock takes everything that came since the last one.
            {
                name: source.units_per_tick if spec.tick_every_seconds is None else None
                for name, source in spec.sources.items()
            },
            chain=self.chain,
            now_seconds=now_seconds,
            policy=spec.snapshots,
            epoch_columns=spec.epoch_columns,
            epochs_max=spec.epochs_max,
            bytes_max=spec.bytes_max,
            closes=spec.closes,
            tick_every_seconds=spec.tick_every_seconds,
            idle_seconds={
                name: node.idle_seconds
                for name, node in spec.plan.named(NodeKind.INPUT).items()
                if node.idle_seconds is not None and not spec.waits_for_silent
            },
            shares={
                name: complete_source(source).share_of_tick
                for name, source in spec.sources.items()
                if spec.tick_every_seconds is None
            },
            lanes={
                name: lanes
                for name, source in spec.sources.items()
                if (lanes := complete_source(source).lanes(self.ledger.positions[name])) is not None
            },
        )


def begin_generation(
    spec: QuerySpec,
    owner: str,
    at_seconds: float,
    *,
    writer: str | None = None,
    checks_parts: bool = True,
    on_taken_over: Callable[[Ledger], None] = lambda ledger: None,
) -> Beginning:
    """Take the journal over, and find what to resume from; every older driver is fenced from here on.

    ``on_taken_over`` is told the ledger as soon as this generation is in the journal. What comes after that
    may fail; the next try then asks this ledger, and not an older one, whether another driver took over.

    Members check the parts that they resume from. Where one has found a part damaged, the next generation
    begins with ``checks_parts``: the driver reads all of them, and goes back to a snapshot that is complete.
    """
    journal: Journal[Entry] = Journal.open(spec.storage, Entry, writer=writer, query=spec.query_id)
    # A flow that does not fit, for the journal or for the sink, is rejected before anything is written. It
    # has not fenced the driver of the one that does, which continues as if nothing had happened.
    before = checked_shape(spec, journal)
    shape = resumed_shape(before, spec.shape)
    sink = _staging(spec).for_query(spec.query_id, published_schemas(shape))
    publisher = complete_publisher(sink.publisher())
    check_outputs(sink, publisher, before, shape)
    generation = journal.start_generation(owner, at_seconds)
    checked_shape(spec, journal)  # another driver may have written meanwhile
    ledger = Ledger(
        journal,
        spec.sources,
        chains_kept=spec.snapshots.keep,
        ticks_gathered_max=spec.ticks_gathered_max,
    )
    on_taken_over(ledger)
    if ledger.shape is not None:
        ledger.change_to(resumed_shape(ledger.shape, shape))
    elif spec.savepoint is not None:
        adopt_savepoint(spec, ledger)
    else:
        ledger.begin(spec.shape)
    publish_again(spec, ledger, publisher)
    chain = newest_whole(spec, ledger) if checks_parts else ledger.chain()
    publisher.discard(generation, ledger.staged())
    remove_unneeded(spec, ledger, generation)
    mission = Mission(
        spec.plan,
        spec.sources,
        sink,
        spec.storage,
        spec.workers,
        generation,
        chain.parts() if chain is not None else (),
        spec.epoch_columns,
        -1 if ledger.committed is None else ledger.committed.epoch,
        query=spec.query_id,
        decoded_bytes_max=spec.decoded_bytes_max,
        inline_bytes_max=spec.snapshots.inline_bytes_max,
    )
    return Beginning(generation, ledger, publisher, chain, mission)


def _staging(spec: QuerySpec) -> Sink:
    """The sink, which stages in the checkpoint if it has no other place."""
    return complete_sink(spec.sink).staging_in(spec.storage)


def checked_shape(spec: QuerySpec, journal: Journal[Entry]) -> FlowShape | None:
    """Return the stored shape, of a savepoint where the query begins with one; RecoveryError if it differs.

    Nothing else of the journal is looked at: positions of another source could not be read.
    """
    before = stored_shape(journal.entries())
    if before is not None:
        check_shape(before, spec.shape, accept_changes=spec.accept_changes, moved_from=spec.moved_from)
    elif spec.savepoint is not None:
        check_savepoint(spec)
    return before


def found_again(source: Source, ledger: Ledger, name: str) -> tuple[Position, list[Unit]]:
    """Units on which a promise rests, of a source that would find others; and the position after them."""
    position, promises = ledger.positions[name], ledger.promises.get(name)
    units = None if promises is None else complete_source(source).units_named(position, promises.waited_for)
    if units is None:
        return position, []
    for unit in units:
        position = source.after(position, unit)
    return position, units


def publish_again(spec: QuerySpec, ledger: Ledger, publisher: Publisher) -> None:
    """Publish the last commit if it was not published; RecoveryError where the output is another one.

    A commit is published before the next one is committed, and the journal notes which ones were. So only
    the last commit may be missing. An output that has less, or nothing, has lost what it had: publishing it
    again would double whatever rows are left. This includes the first commit, because the output is marked
    before it: first in the output, then in the journal, then comes the commit.
    """
    through = publisher.published_through()
    own = [commit for commit in ledger.commits if commit.number >= 0]  # others are of a savepoint
    committed = own[-1].epoch if own else -1
    if through is not None and through > committed:
        raise RecoveryError(
            f"{_outputs_of(spec)}: the output contains epochs up to {through}, but the journal in "
            f"{spec.storage.address} has commits up to epoch {committed} only; resuming would publish the "
            "epochs between a second time. Either this is the output of another query, or the last entries "
            "of the journal are lost: restore them from a copy, or start with a new checkpoint and a new "
            "output."
        )
    is_lost = bool(own) and ledger.is_output_begun and through is None
    if is_lost or (ledger.published >= 0 and (through is None or through < ledger.published)):
        has = "has no commit of this query" if through is None else f"ends with epoch {through}"
        reached = f"published up to epoch {ledger.published}" if ledger.published >= 0 else "begun to publish"
        raise RecoveryError(
            f"{_outputs_of(spec)}: the journal in {spec.storage.address} has {reached}, "
            f"but the output {has}. Either this is another output, or it was emptied, or the marks of its "
            "commits were removed: use the original output, restore "
            "it from a copy, or start with a new checkpoint and a new output."
        )
    for commit in own:
        if through is None or commit.epoch > through:
            try:
                publisher.publish(commit.number, commit.epoch, commit.staged)
            except (StagedLost, NotStored) as error:
                _check_published_meanwhile(spec, publisher, commit.epoch, error)
    if own:
        ledger.note_published(committed)
        return
    publisher.begin()
    if publisher.published_through() is None:
        raise RecoveryError(
            f"{_outputs_of(spec)}: published_through() of the publisher is None after begin(), so its mark "
            "is not stored. Let begin() store one, and published_through() return -1 until the first commit."
        )
    ledger.note_begun()


def _check_published_meanwhile(
    spec: QuerySpec, publisher: Publisher, epoch: int, error: StorageError
) -> None:
    """RecoveryError if files of a commit are gone that no older driver has published meanwhile."""
    through = publisher.published_through()
    if through is None or through < epoch:
        raise RecoveryError(
            f"{_outputs_of(spec)}: the journal in {spec.storage.address} has committed epoch {epoch}, "
            f"but the output ends with epoch {-1 if through is None else through}, and files of epoch "
            f"{epoch} are gone. If the output was restored from a copy, that copy is older than the "
            f"checkpoint: restore a newer one, or start with a new checkpoint and a new output. {error}"
        ) from error


def _outputs_of(spec: QuerySpec) -> str:
    """Name the query, its outputs and its sink, for a message."""
    names = ", ".join(map(repr, spec.plan.named(NodeKind.OUTPUT)))
    return f"query '{spec.plan.name}', output {names} ({type(spec.sink).__name__})"


def newest_whole(spec: QuerySpec, ledger: Ledger) -> SnapshotChain | None:
    """The newest snapshot whose parts are all there and complete; RecoveryError if there is none."""
    damages: list[str] = []
    looked: dict[str, str | None] = {}
    for chain in ledger.chains():
        parts = [part for link in chain.parts() for part in link]
        for part in parts:
            if part.name not in looked:
                looked[part.name] = _damage(spec, part)
        damage = next((words for part in parts if (words := looked[part.name])), None)
        if damage is not None:
            # What a newer driver has cleaned up is no damage.
            ledger.check_not_fenced()
            damages.append(damage)
            continue
        if damages:
            ledger.go_on_from(chain)
            _log.warning(
                "query '%s': %s The query resumes from the snapshot of epoch %s; epochs up to %s are "
                "recomputed, but not published again.",
                spec.plan.name,
                damages[0],
                chain.epoch,
                ledger.commits[-1].epoch,
            )
        return chain
    if damages:
        raise RecoveryError(
            f"query '{spec.plan.name}' has no intact snapshot left: {damages[0]} Restore the file from a "
            "copy, or start with a new checkpoint."
        )
    return None


def _damage(spec: QuerySpec, part: PartSaved) -> str | None:
    """Return what is wrong with a part of a snapshot; None if it is the complete committed one."""
    try:
        whole_part(part, spec.storage, spec.query_id)
    except DamagedSnapshot as error:
        return str(error)
    return None
