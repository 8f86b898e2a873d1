"""Event time in worlds that the simulator chooses: the same windows come out, final ones once.

Families, and what only each can find:
- worlds without failures: a bound that depends on what arrived first;
- worlds with crashes: a bound or a row that is lost, or a result that comes twice;
- other numbers of workers: what every worker has to know, and one does not;
- mistakes, each of which one of these, or brute force, must find.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.errors import PointstampError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.event_bounds import in_windows, judged, passed, rows_of, timed_tables, windows_counted
from support.event_worlds import BROKEN_EVENTS, EVENT_FLOWS, events_of, final_flow
from support.table_queries import Row, put_out

# Those of several operations take longer; what is left out here comes in the long test.
WORLDS = {name: 4 if name in ("keyed", "close", "visits") else 10 for name in EVENT_FLOWS}


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


def schedules(name: str, worlds: int = 10) -> None:
    plan = EVENT_FLOWS[name]().plan
    check_valid(simulate(Simulator(plan, prepared(plan, events_of(name))), cases(range(worlds), 1, 4)))


def crashes(name: str, worlds: int = 5) -> None:
    plan = EVENT_FLOWS[name]().plan
    rows = prepared(plan, events_of(name))
    check_valid(simulate(CrashSimulator(plan, rows), cases(range(worlds), 1, 3, (1, 4))))


def rescales(name: str, worlds: int = 5, world: type[CrashWorld] = Rescaled) -> None:
    plan = EVENT_FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, events_of(name)))
    simulator.world = world
    sizes: set[int] = set()
    for case in cases(range(worlds), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


@pytest.mark.parametrize("name", EVENT_FLOWS)
def test_what_is_put_out_does_not_depend_on_the_schedule(name: str) -> None:
    schedules(name, WORLDS[name])


@pytest.mark.parametrize("name", EVENT_FLOWS)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    crashes(name, WORLDS[name] // 2)


@pytest.mark.parametrize("name", EVENT_FLOWS)
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    rescales(name, WORLDS[name] // 2)


class Ticking(Rescaled):
    """Epochs are ticks of a clock, and each generation has a number of workers of its own."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        if not self.feed.columns:
            self.spec = replace(self.spec, tick_every_seconds=0.02)


@pytest.mark.parametrize("name", ["keyed", "close", "visits"])
def test_ticks_of_a_clock_and_other_numbers_of_workers_change_nothing(name: str) -> None:
    rescales(name, 2, Ticking)


@pytest.mark.long
@pytest.mark.parametrize("name", EVENT_FLOWS)
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    plan = EVENT_FLOWS[name]().plan
    rows = prepared(plan, events_of(name, 1))
    check_valid(simulate(Simulator(plan, rows), cases(range(6), 1, 4)))
    check_valid(simulate(CrashSimulator(plan, rows), cases(range(6), 1, 4, (0, 4))))


def by_brute_force() -> None:
    """The flow beside the oracle, after every epoch."""
    epochs: list[list[Row]] = [
        [(0, 3, 1)], [(0, 8, 2), (1, 17, 1)], [(0, 2, 5), (1, 12, 1)], [(0, 30, 1)], [], [(1, 60, 2)]
    ]  # fmt: skip
    found = final_flow().run(rows=timed_tables(epochs), workers=2)
    truth = judged(epochs, 6)
    applied = None
    for epoch, total in enumerate(put_out(found["open"], len(epochs))):
        rows = truth.in_time[epoch]
        assert rows_of(found["rows_late"], epoch) == Counter(truth.late[epoch]), epoch
        wanted = Counter(row for row in windows_counted(rows) if passed(truth.bounds, epoch, row[2]))
        assert rows_of(found["final"], epoch) == wanted, epoch
        if epochs[epoch]:
            applied = truth.bounds[epoch - 1] if epoch else None
        assert total == Counter(row for row in in_windows(rows) if applied is None or row[-1] > applied)


def with_more_workers() -> None:
    """A query continues with more workers, and rows that are late come to all of them."""
    with TemporaryDirectory() as place:
        (folder := Path(place, "in")).mkdir()
        pq.write_table(pa.table({"k": [1], "at": [100], "n": [1]}), folder / "0.parquet")
        for workers in (1, 3):
            query = final_flow().start(
                rows=ps.io.files(folder, units_per_tick=None),
                workers=workers,
                checkpoint=f"{place}/checkpoint",
                output=f"{place}/out",
            )
            query.process_all_available()
            query.stop()
            for number in range(1, 7):
                pq.write_table(pa.table({"k": [1], "at": [number], "n": [1]}), folder / f"{number}.parquet")
        late = ps.read_changes(f"{place}/out", "rows_late")
        assert sorted(late["at"].to_pylist()) == list(range(1, 7))


JUDGES: dict[str, Callable[[], None]] = {
    "a bound is taken before its epoch is complete": lambda: schedules("final"),
    "a late row is counted into a closed window": by_brute_force,
    "a window that is over comes again": by_brute_force,
    "rows are let go too soon": by_brute_force,
    "rows are never let go": by_brute_force,
    "a final row comes twice after a recovery": lambda: crashes("final"),
    "bounds are lost in a recovery": lambda: crashes("final"),
    "bounds are given to one worker": with_more_workers,
}


def test_every_mistake_has_a_judge() -> None:
    assert JUDGES.keys() == BROKEN_EVENTS.keys()


@pytest.mark.parametrize("mistake", BROKEN_EVENTS)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    JUDGES[mistake]()
    BROKEN_EVENTS[mistake](monkeypatch)
    with pytest.raises((AssertionError, PointstampError), match=r"^(\d+\n)?assert |^seed \d+: |epoch \d"):
        JUDGES[mistake]()
