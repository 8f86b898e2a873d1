"""Inputs that have fallen silent: event time passes without them if their user says so; ``why`` names them.

Families, and what only each can find:
- single decisions of the coordinator, with time as an argument: an input that is given up too soon, or that
  does not count again when something comes from it;
- simulated worlds with crashes, on other numbers of workers, judged by brute force from the ticks in their
  journals: silence that is decided again in a replay, late rows that are lost, a bound that goes back;
- queries in real time: that results come at all, what ``why`` says, and that a restart changes nothing.
"""

import re
from collections import Counter
from dataclasses import replace
from itertools import count as counted
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow.epoch_column import EventEpochs
from pointstamp.connectors.source import Part, Unit
from pointstamp.driver.messages import Tick, TickRead
from pointstamp.errors import FlowError
from pointstamp.operators.watermark import Bounds
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.recovery import begin_generation
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.feed import Feed, SimulatedSource
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.crash.setting import CrashRun
from pointstamp.simulate.seeds import cases, simulate
from pointstamp.simulate.world import Ended
from pointstamp.storage.memory import MemoryStorage
from support.broken_recovery import Rescaled
from support.recovering import Growing, MemorySink, spec_of
from support.streams import put, until

EVERY, SIZE = 5, 10
LATENESS = {"loud": 4, "quiet": 9}
NAMES = tuple(LATENESS)


def epochs_flow(idle: str | None) -> ps.Dataflow:
    """Windows of two inputs whose epochs are event time."""
    flow = ps.Dataflow("silent epochs")
    inputs = [
        flow.stream_input(
            name, "at long", epochs=ps.by_event_time("at", every=EVERY, lateness=LATENESS[name], idle=idle)
        )
        for name in NAMES
    ]
    windows = inputs[0].union(inputs[1]).window("at", SIZE).emit_on_close("window_end")
    flow.output("windows", windows.group_by("window_start").agg(rows=ps.count()))
    return flow


def ticks_flow(idle: str | None) -> ps.Dataflow:
    """The same where epochs are ticks and event time is a column."""
    flow = ps.Dataflow("silent streams")
    loud, quiet = (
        flow.stream_input(name, "at long").with_watermark("at", LATENESS[name], idle=idle) for name in NAMES
    )
    windows = loud.union(quiet).window("at", SIZE).emit_on_close("window_end")
    flow.output("windows", windows.group_by("window_start").agg(rows=ps.count()))
    return flow


# Single decisions.


def coordinator() -> Coordinator:
    flow = epochs_flow("10 seconds")
    sources = {name: Growing(units_per_tick=None) for name in NAMES}
    columns = {name: EventEpochs("at", pa.int64(), EVERY, 0) for name in NAMES}
    spec = spec_of(
        flow, [{}], MemoryStorage(), MemorySink(), workers=1, sources=sources, epoch_columns=columns
    )
    return begin_generation(spec, "test", 0.0).coordinator(spec, 0.0)


def ticks(coordinator: Coordinator, now_seconds: float) -> list[Tick]:
    return [order for _, order in coordinator.orders(now_seconds) if isinstance(order, Tick)]


def offer(coordinator: Coordinator, name: str, number: int) -> None:
    coordinator.offer(name, [Unit(str(number), (Part(str(number), 1),))])


def test_event_time_passes_without_an_input_once_that_was_silent_for_long_enough() -> None:
    driver = coordinator()
    offer(driver, "loud", 0)
    (tick,) = ticks(driver, 3.0)
    driver.read(0, TickRead(tick.number, 20, {"loud": 100}))
    assert ticks(driver, 9.9) == []
    assert driver.seconds_until_due(9.5) == pytest.approx(0.5)
    assert "input 'quiet' holds event time back, because it has had no row" in driver.event_time_words(9.5)[0]
    (passed,) = ticks(driver, 10.0)
    assert (passed.parts, passed.complete_to, passed.silent) == ({}, 20, ["quiet"])
    assert driver.event_time_words(10.0)[-1].startswith("input 'quiet' does not hold event time back")


def test_an_input_at_event_time_0_has_had_a_row_and_one_without_rows_is_waited_for() -> None:
    driver = coordinator()
    offer(driver, "loud", 0)
    offer(driver, "quiet", 0)
    (tick,) = ticks(driver, 0.0)
    assert driver.inputs_behind() == []
    driver.read(0, TickRead(tick.number, 20, {"loud": 100, "quiet": 0}))
    assert driver.inputs_behind() == ["quiet"]
    (said,) = driver.event_time_words(1.0)
    assert said.startswith("input 'quiet' holds event time back at 0; ")


def test_an_input_counts_again_when_something_comes_from_it() -> None:
    driver = coordinator()
    offer(driver, "loud", 0)
    driver.read(0, TickRead(ticks(driver, 0.0)[0].number, 20, {"loud": 100}))
    assert ticks(driver, 12.0)[0].complete_to == 20
    offer(driver, "quiet", 0)
    offer(driver, "loud", 1)
    (tick,) = ticks(driver, 13.0)
    assert (tick.open_from, tick.silent) == (20, [])
    driver.read(0, TickRead(tick.number, 40, {"quiet": 120, "loud": 200}))
    assert [each.complete_to for each in ticks(driver, 13.0)] == [24], "it holds the other one back again"


def test_an_input_whose_rows_are_being_read_is_not_silent() -> None:
    driver = coordinator()
    offer(driver, "quiet", 0)
    offer(driver, "loud", 0)
    (tick,) = ticks(driver, 0.0)
    assert ticks(driver, 50.0) == []
    driver.read(0, TickRead(tick.number, 20, {"loud": 100, "quiet": 50}))
    assert [each.complete_to for each in ticks(driver, 50.0)] == [10]


# Worlds, judged by brute force from the ticks in the journal.


def items(seed: int) -> dict[str, list[pa.Table]]:
    """The loud input continues; the quiet one has little, and often what is far behind."""
    loud = [[9 * n + 2, 9 * n + 7 - seed % 3] for n in range(10)]
    quiet: list[list[int]] = [[3 + seed % 5], [15], [20], [12, 95]]
    return {
        name: [pa.table({"at": pa.array(rows, pa.int64())}) for rows in each]
        for name, each in (("loud", loud), ("quiet", quiet))
    }


def published(run: CrashRun, output: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for (name, time), batches in run.outputs.items():
        if name == output:
            for batch in batches:
                found.update((time[0], *row.values()) for row in batch.to_pylist())
    return found


def taken(run: CrashRun, given: dict[str, list[pa.Table]]) -> list[tuple[Any, dict[str, list[int]]]]:
    """Each tick with the event times of its rows, by input."""
    order = [run.ticks[number] for number in sorted(run.ticks)]
    return [
        (
            tick,
            {
                name: [at for unit in units for at in given[name][int(unit.name)]["at"].to_pylist()]
                for name, units in tick.units.items()
            },
        )
        for tick in order
    ]


def judge_epochs(run: CrashRun, given: dict[str, list[pa.Table]]) -> int:
    """What an epoch flow must have published, from its ticks; how many rows were late."""
    windows: Counter[int] = Counter()
    late: Counter[Any] = Counter()
    for tick, arrived in taken(run, given):
        for name, rows in arrived.items():
            for at in rows:
                if at // EVERY < max(tick.open_from, tick.promised.get(name, 0)):
                    late[(name, tick.open_from, at, at // EVERY)] += 1
                else:
                    windows[at // SIZE * SIZE] += 1
    expected = Counter(
        (epoch, start, count)
        for start, count in windows.items()
        if (epoch := (start + SIZE - 1) // EVERY) <= run.published_through
    )
    assert published(run, "windows") == expected
    for name in NAMES:
        through = run.published_through
        mine = {each[1:]: n for each, n in late.items() if each[0] == name and each[1] <= through}
        assert published(run, f"{name}_late") == Counter(mine)
    return late.total()


def judge_ticks(run: CrashRun, given: dict[str, list[pa.Table]]) -> int:
    """What a flow with ticks must have published, from its ticks; in how many of them silence mattered."""
    latest: dict[str, int] = {}
    together: int | None = None
    waiting: list[int] = []
    expected: Counter[Any] = Counter()
    late: Counter[Any] = Counter()
    passed_in_silence = 0
    for tick, arrived in taken(run, given):
        for name, rows in arrived.items():
            own = latest[name] - LATENESS[name] if name in latest else None
            bound = max((each for each in (own, together) if each is not None), default=None)
            for at in rows:
                if bound is not None and at < bound:
                    late[(name, tick.open_from, at)] += 1
                else:
                    waiting.append(at)
        for name, rows in arrived.items():
            latest[name] = max([*rows, latest.get(name, rows[0])])
        bounds = {name: latest[name] - LATENESS[name] for name in latest}
        speaking = [name for name in NAMES if name not in tick.silent]
        now: int | None = None
        if bounds and all(name in bounds for name in speaking):
            now = min(bounds[name] for name in speaking) if speaking else max(bounds.values())
        if now is not None and (together is None or now > together):
            together = now
            passed_in_silence += bool(tick.silent)
        over = [at for at in waiting if together is not None and at // SIZE * SIZE + SIZE <= together]
        waiting = [at for at in waiting if at not in over]
        starts = Counter(at // SIZE * SIZE for at in over)
        expected.update((tick.open_from, start, count) for start, count in starts.items())
    assert published(run, "windows") == expected
    for name in NAMES:
        mine = {each[1:]: n for each, n in late.items() if each[0] == name}
        assert published(run, f"{name}_late") == Counter(mine)
    return passed_in_silence


class SlowFeed(Feed):
    """Lets three units of the loud input be found before the next of the quiet one."""

    def unfound(self, *, is_last_due: bool, is_quiet: bool) -> list[SimulatedSource]:
        loud, quiet = (self.sources[name] for name in NAMES)
        found = super().unfound(is_last_due=is_last_due, is_quiet=is_quiet)
        return [each for each in found if each is loud or loud not in found or loud.found > 3 * quiet.found]


class Plain(Rescaled):
    """Each generation has a number of workers of its own; no input has an epoch column by chance."""

    has_features = False

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        self.spec = replace(self.spec, waits_for_silent=False)
        self.feed = SlowFeed(self.feed.inputs, self.feed.sources, self.feed.columns)
        for source in self.feed.sources.values():
            source.found = 0


def worlds(flow: ps.Dataflow, judge: Any, count: int) -> int:  # noqa: ANN401 - one of the two above
    mattered = 0
    one_lane = (seed for seed in counted() if seed // 3 % 3 == 0)  # its units are those that are given
    for seed in islice(one_lane, count):
        given = items(seed)
        simulator = CrashSimulator(flow.plan, prepared(flow.plan, given))
        simulator.world = Plain
        (case,) = cases([seed], 1, 3, (0, 4))
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        mattered += judge(run, given)
    return mattered


def test_worlds_with_event_epochs_publish_what_their_ticks_say() -> None:
    assert worlds(epochs_flow("5 ms"), judge_epochs, 6) > 3, "some rows came too late"


def test_worlds_with_ticks_publish_what_their_ticks_say() -> None:
    assert worlds(ticks_flow("5 ms"), judge_ticks, 8) > 3, "silence let event time pass"


@pytest.mark.long
def test_many_worlds_publish_what_their_ticks_say() -> None:
    worlds(epochs_flow("5 ms"), judge_epochs, 40)
    worlds(ticks_flow("5 ms"), judge_ticks, 40)


def test_worlds_of_a_simulation_wait_for_silent_inputs() -> None:
    """What they publish is compared with a run that knows no clock."""
    plan = ticks_flow("1 ms").plan
    report = simulate(CrashSimulator(plan, prepared(plan, items(0))), cases(range(3), 1, 3, (0, 2)))
    assert report.finding is None, report.finding.reason


def test_a_bound_that_goes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Bounds._move

    def forgets(self: Bounds, silent: Any) -> None:  # noqa: ANN401 - as the method takes it
        self.now = None
        right(self, silent)

    monkeypatch.setattr(Bounds, "_move", forgets)
    with pytest.raises(AssertionError, match="assert Counter"):
        worlds(ticks_flow("5 ms"), judge_ticks, 8)


# Queries.


def start(flow: ps.Dataflow, path: Path, **given: Any) -> ps.Query:  # noqa: ANN401 - as start takes them
    for name in NAMES:
        (path / name).mkdir(exist_ok=True)
    inputs: Any = {name: ps.io.files(path / name) for name in NAMES}
    return flow.start(**inputs, checkpoint=path / "c", output=path / "out", **given)


def windows(path: Path) -> list[tuple[int, int]]:
    found = ps.read_changes(str(path / "out"), "windows")
    return sorted((row["window_start"], row["rows"]) for row in found.to_pylist())


@pytest.mark.parametrize("make", [epochs_flow, ticks_flow])
def test_a_query_goes_on_without_a_silent_input_and_says_so(make: Any, tmp_path: Path) -> None:  # noqa: ANN401
    query = start(make("200 ms"), tmp_path)
    put(tmp_path / "loud", "1", {"at": [3, 8, 37]})
    until(lambda: query.epoch >= 0 and windows(tmp_path))
    assert windows(tmp_path) == [(0, 2)]
    why = query.why("windows")
    said = "'quiet' does not hold event time back; no row has arrived for"
    assert any(said in each for each in why)
    assert len(why) == len(set(why)), "an input is named once, whatever its ports"
    put(tmp_path / "quiet", "1", {"at": [5, 35]})
    query.process_all_available()
    query.stop()
    assert windows(tmp_path) == [(0, 2)], "what was published stays"
    query = start(make("200 ms"), tmp_path, workers=2)
    put(tmp_path / "loud", "2", {"at": [90]})
    until(lambda: len(windows(tmp_path)) == 2)
    query.stop()
    assert windows(tmp_path) == [(0, 2), (30, 2)]
    assert ps.read_changes(str(tmp_path / "out"), "quiet_late")["at"].to_pylist() == [5]


@pytest.mark.parametrize("make", [epochs_flow, ticks_flow])
def test_an_input_that_may_be_silent_for_ever_is_named(make: Any, tmp_path: Path) -> None:  # noqa: ANN401
    query = start(make(None), tmp_path)
    put(tmp_path / "loud", "1", {"at": [3, 8, 37]})
    put(tmp_path / "quiet", "1", {"at": [22]})
    query.process_all_available()
    said = [each for each in query.why("windows") if "event time" in each]
    until(lambda: query.status["message"].startswith("waiting"))
    message = query.status["message"]
    put(tmp_path / "quiet", "2", {"at": [90]})
    query.process_all_available()
    until(lambda: "'loud'" in query.status["message"])  # now that one is behind
    query.stop()
    behind = r"waiting for (input|stream) 'quiet', behind which rows of other inputs wait for event time"
    assert re.fullmatch(behind, message), message
    assert len(said) == 1
    assert "'quiet' holds event time back at 1" in said[0]
    assert "idle= is not set" in said[0]


# Misuse.


def test_how_long_an_input_may_be_silent_is_said_once_and_is_a_length() -> None:
    with pytest.raises(FlowError, match="idle must be above 0"):
        epochs_flow("0 s")
    with pytest.raises(FlowError, match="idle must be a timedelta or text"):
        ticks_flow("soon")
    flow = ps.Dataflow("twice")
    rows = flow.stream_input("rows", "at long")
    rows.with_watermark("at", 1, idle="1 s")
    with pytest.raises(FlowError, match="its input 'rows' has idle= of 1"):
        rows.with_watermark("at", 1, idle="2 s", late_output="other").named("again")
