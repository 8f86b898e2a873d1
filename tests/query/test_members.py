"""Members, the parts that they save, and the scribe that writes beside them.

- *What is reported*: members of one crew stepped in random order; only this finds output of a later epoch in
  the report of an earlier one, which would be published twice after a restart.
- *Parts*: bytes that are cut or altered are refused by name; state without keys stays with its worker.
- *The scribe*: order, errors, and that it wakes a sleeping member no more often than needed.
"""

import random
import select
import socket
import threading

import pyarrow as pa
import pytest
from msgspec.structs import replace

import pointstamp as ps
from pointstamp.connectors.memory import Rows as MemoryRows
from pointstamp.connectors.source import Part
from pointstamp.driver.messages import Finished, Report, Save, Saved, Tick
from pointstamp.errors import RecoveryError, StorageError
from pointstamp.journal.snapshot_parts import decode_part
from pointstamp.query import member as member_module
from pointstamp.query.crew import InProcessCrew
from pointstamp.query.mission import Mission, part_origin
from pointstamp.query.snapshot_writer import ThreadScribe
from pointstamp.state import saved
from pointstamp.storage.memory import MemoryStorage
from support.recoverables import FLOWS, Rows, expected, numbers
from support.recovering import MemorySink, Rig

EPOCHS = 5


def _reports(flow: ps.Dataflow, data: list[Rows], sink: MemorySink, seed: int) -> list[Saved]:
    """Let two members read everything at once, in random steps; what they report to have saved."""
    sources = {"numbers": MemoryRows(tuple(each["numbers"] for each in data))}
    mission = Mission(flow.plan, sources, sink, MemoryStorage(), 2, 1)
    crew = InProcessCrew(mission)
    for epoch in range(len(data)):
        for worker in range(2):
            parts = {"numbers": [Part(str(epoch), 1)]} if worker == epoch % 2 else {}
            crew.post(worker, Tick(epoch, parts, epoch, epoch + 1))
            crew.post(worker, Save(epoch % 3 == 0))
    choose = random.Random(seed)
    found: list[Report] = []
    for _ in range(100_000):
        steps = [member.step() for member in choose.sample(crew.members, choose.randint(1, 2))]
        found += [report for _, report in crew.collect()]
        if not any(steps) and not any(member.step() for member in crew.members):
            break
    found += [report for _, report in crew.collect()]
    crew.end()
    assert not any(isinstance(report, Finished) for report in found)
    return [report for report in found if isinstance(report, Saved)]


@pytest.mark.parametrize("stage_bytes_max", [0, member_module.STAGE_BYTES_MAX], ids=["early", "late"])
def test_a_report_holds_the_output_up_to_its_epoch_and_nothing_later(
    stage_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "STAGE_BYTES_MAX", stage_bytes_max)
    flow = FLOWS["uneven"]()
    rows = numbers([(k, 5 + 9 * (k % 2)) for k in range(3)])
    data = [{"numbers": rows if epoch != 3 else rows[:0]} for epoch in range(EPOCHS)]
    wanted = expected(flow, data)
    for seed in range(10):
        sink = MemorySink()
        reports = _reports(flow, data, sink, seed)
        assert sorted(report.epoch for report in reports) == sorted([*range(EPOCHS)] * 2)
        for report in reports:
            assert all(piece.last_epoch <= report.epoch for piece in report.staged)
            assert report.settled <= report.epoch, "a tick is not settled before its epochs are saved"
        for number in range(EPOCHS):
            staged = [piece for report in reports if report.epoch == number for piece in report.staged]
            sink.publish(number, number, staged)
        assert sink.rows() == wanted


class Counter:
    """Keeps a number without keys."""

    outputs = "n long"
    state = {"seen": saved.values(int)}  # noqa: RUF012 - read once

    def __init__(self) -> None:
        self.seen = 0

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.seen += batch.num_rows


def test_state_without_keys_stays_with_as_many_workers_as_saved_it() -> None:
    flow = ps.Dataflow("counted")
    flow.output("out", ps.operator("counter", Counter(), x=flow.stream_input("numbers", "k long, v long")))
    first = Rig(flow.plan, 2, [], random.Random(0))
    first.feed(0, {"numbers": numbers([(1, 1), (2, 2)])})
    first.save(is_whole=True)
    first.settle()
    again = Rig(flow.plan, 2, first.chain, random.Random(0))
    counters = [
        each.logic for worker in again.workers for each in worker.instances.values() if each.name == "counter"
    ]
    assert sum(counter.seen for counter in counters) == 2
    with pytest.raises(RecoveryError, match="operator counter has the state 'seen', which has no keys"):
        Rig(flow.plan, 3, first.chain, random.Random(0))


def test_a_part_that_is_not_as_it_was_written_is_refused_by_name() -> None:
    flow = FLOWS["running"]()
    storage = MemoryStorage()
    mission = Mission(
        flow.plan,
        {"numbers": MemoryRows((numbers([(1, 1)]),))},
        MemorySink(),
        storage,
        1,
        1,
        inline_bytes_max=0,
    )
    crew = InProcessCrew(mission)
    crew.post(0, Tick(0, {"numbers": [Part("0", 1)]}, 0, 1))
    crew.post(0, Save(is_whole=True))
    while crew.members[0].step():
        pass
    (saved_part,) = [report.part for _, report in crew.collect() if isinstance(report, Saved)]
    (name,) = storage.list()
    assert part_origin(name) == (0, 1)
    whole = storage.read(name)
    assert saved_part.name == name
    assert decode_part(whole, saved_part, "").epoch == 0
    for at in range(0, len(whole), 7):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            with pytest.raises(StorageError, match=name):
                decode_part(damaged, saved_part, "")
    for other in (replace(saved_part, name=f"{name}0"), replace(saved_part, crc32=0)):
        with pytest.raises(StorageError, match=name):
            decode_part(whole, other, "")
    with pytest.raises(StorageError, match="expected an object of 'another query', got one of ''"):
        decode_part(whole, saved_part, "another query")
    crew.end()


def test_jobs_are_done_in_order() -> None:
    scribe = ThreadScribe()
    try:
        for _ in range(50):
            scribe.submit(lambda: None)
            scribe.submit(Finished)
            reports: list[Report] = []
            while not scribe.is_idle:
                select.select([scribe.fileno()], [], [], 5.0)
                reports += scribe.done()
            assert reports == [Finished()]
    finally:
        scribe.close()


class LateBell:
    """Rings only when it is let."""

    def __init__(self, bell: socket.socket) -> None:
        self.may_ring = threading.Event()
        self._bell = bell

    def send(self, sound: bytes) -> int:
        self.may_ring.wait(5.0)
        return self._bell.send(sound)

    def close(self) -> None:
        self._bell.close()


def test_a_bell_that_rings_after_its_report_was_taken_does_not_keep_the_member_awake() -> None:
    scribe = ThreadScribe()
    bell = LateBell(scribe._theirs)
    scribe._theirs = bell  # type: ignore[assignment]
    try:
        scribe.submit(Finished)
        while not scribe.done():
            pass
        bell.may_ring.set()
        assert select.select([scribe.fileno()], [], [], 5.0)[0]
        assert scribe.done() == []
        assert select.select([scribe.fileno()], [], [], 0.0)[0] == []
    finally:
        scribe.close()


def test_what_goes_wrong_in_a_job_is_raised_where_the_member_looks() -> None:
    scribe = ThreadScribe()

    def fail() -> Report:
        raise StorageError("'x' could not be written.")

    try:
        scribe.submit(fail)
        select.select([scribe.fileno()], [], [], 5.0)
        with pytest.raises(StorageError, match="'x' could not be written"):
            scribe.done()
        assert scribe.is_idle
    finally:
        scribe.close()
