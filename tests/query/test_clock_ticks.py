"""Ticks of a clock: an epoch every so often, with everything that came, and also where nothing came.

Families, and what only each can find:
- single decisions of the coordinator, with time as an argument: a tick too soon, or one that is left out;
- simulated worlds with crashes: a tick of a clock is recorded, and read again as it was;
- a query in real time, and what is refused.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.connectors.source import Part, Unit
from pointstamp.driver.messages import Tick
from pointstamp.errors import FlowError
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.recovery import begin_generation
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.seeds import FindingKind, cases
from pointstamp.simulate.world import Ended
from pointstamp.storage.memory import MemoryStorage
from support.event_worlds import events_of, final_flow
from support.recovering import Growing, MemorySink, spec_of
from support.streams import until


def coordinator() -> Coordinator:
    flow = ps.Dataflow("clock")
    flow.output("rows", flow.stream_input("rows", "x long"))
    sources = {"rows": Growing(units_per_tick=1)}
    spec = spec_of(
        flow, [{}], MemoryStorage(), MemorySink(), workers=1, sources=sources, tick_every_seconds=10.0
    )
    return begin_generation(spec, "test", 0.0).coordinator(spec, 0.0)


def ticks(coordinator: Coordinator, now_seconds: float) -> list[tuple[int, int]]:
    """The ticks that the first member is told now: their epochs, and how many parts they have."""
    told = [order for worker, order in coordinator.orders(now_seconds) if worker == 0]
    return [
        (order.open_from, sum(map(len, order.parts.values()))) for order in told if isinstance(order, Tick)
    ]


def test_there_is_a_tick_when_it_is_due_and_none_before() -> None:
    clock = coordinator()
    assert clock.seconds_until_due(4.0) == 6.0
    for number in range(3):
        clock.offer("rows", [Unit(str(number), (Part(str(number), 1),))])
    assert ticks(clock, 9.9) == []
    assert ticks(clock, 10.0) == [(0, 3)], "everything that came since the last one"
    assert ticks(clock, 15.0) == []
    assert ticks(clock, 20.5) == [(1, 0)], "an epoch without rows"
    assert clock.seconds_until_due(24.5) == 6.0


def test_at_the_end_of_all_inputs_the_clock_stops() -> None:
    clock = coordinator()
    clock.offer("rows", [Unit("0", (Part("0", 1),))])
    clock.end("rows")
    assert clock.seconds_until_due(0.5) is None
    assert ticks(clock, 1.0) == [(0, 1)], "it waits for nothing"
    assert clock.ledger.is_final
    assert ticks(clock, 100.0) == []


class Clocked(CrashWorld):
    """A world in which epochs are ticks of a clock."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        if not self.feed.columns:
            self.spec = replace(self.spec, tick_every_seconds=0.02)


def test_worlds_with_a_clock_publish_what_their_ticks_say() -> None:
    plan = final_flow().plan
    simulator = CrashSimulator(plan, prepared(plan, events_of("final")))
    simulator.world = Clocked
    empty = 0
    for case in cases(range(8), 1, 3, (0, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        empty += sum(not any(tick.units.values()) for tick in run.ticks.values())
    assert empty > 8, "there were ticks without rows"


def test_a_query_has_epochs_without_rows(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    flow = ps.Dataflow("clock")
    flow.output("rows", flow.stream_input("rows", "x long"))
    places: dict[str, Any] = {"checkpoint": tmp_path / "c", "output": tmp_path / "out"}
    query = flow.start(rows=ps.io.files(folder), options=ps.QueryOptions(tick_every="50 ms"), **places)
    until(lambda: query.epoch >= 2)
    for number in range(3):
        pq.write_table(pa.table({"x": [number]}), folder / f"{number}.parquet")
    query.process_all_available()
    query.stop()
    found = ps.read_changes(str(tmp_path / "out"), "rows")
    assert sorted(found["x"].to_pylist()) == [0, 1, 2]
    assert min(found["epoch"].to_pylist()) > 2


@pytest.mark.parametrize(
    ("tick_every", "epoch", "said"),
    [
        ("soon", None, "tick_every must be a timedelta or text such as"),
        ("0 s", None, "tick_every must be above 0"),
        ("1 s", "x", "has an epoch column, so tick_every= cannot define its epochs"),
    ],
)
def test_what_is_no_clock_is_refused(tick_every: str, epoch: str | None, said: str, tmp_path: Path) -> None:
    flow = ps.Dataflow("clock")
    flow.output("rows", flow.stream_input("rows", "x long"))
    with pytest.raises(FlowError, match=said):
        flow.start(
            rows=[],
            checkpoint=tmp_path / "c",
            output=tmp_path / "out",
            options=ps.QueryOptions(epoch=epoch, tick_every=tick_every),
        )
