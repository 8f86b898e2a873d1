"""Lanes of an input: event time passes with the one that is farthest behind.

- *Single decisions* of the coordinator: which lanes hold event time back, and until when.
- *Beside brute force*: random rows in random lanes; no row is late that its own lane has not passed. A bound
  by the fastest lane is found.
"""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.epoch_column import EventEpochs
from pointstamp.connectors.source import Part, Unit
from pointstamp.driver.messages import Tick, TickRead
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.intake import Lanes
from pointstamp.query.recovery import begin_generation
from pointstamp.storage.memory import MemoryStorage
from support.recovering import Growing, MemorySink, spec_of

EVERY = 5


def coordinator(idle: str | None = None) -> Coordinator:
    flow = ps.Dataflow("lanes")
    epoch = ps.by_event_time("at", every=EVERY, lateness=0, idle=idle)
    flow.output("rows", flow.stream_input("rows", "at long", epochs=epoch))
    columns = {"rows": EventEpochs("at", pa.int64(), EVERY, 0)}
    sources = {"rows": Growing(units_per_tick=None)}
    spec = spec_of(
        flow, [{}], MemoryStorage(), MemorySink(), workers=1, sources=sources, epoch_columns=columns
    )
    return begin_generation(spec, "test", 0.0).coordinator(spec, 0.0)


def tick(driver: Coordinator, now_seconds: float) -> Tick | None:
    found = [order for _, order in driver.orders(now_seconds) if isinstance(order, Tick)]
    return found[0] if found else None


def take(
    driver: Coordinator, number: int, latest: dict[int, int], now_seconds: float, empty: int = -1
) -> Tick:
    """Offer and read a unit with rows of some lanes, and perhaps an empty part."""
    parts = [Part(f"{number}-{lane}", 10, lane=lane) for lane in latest]
    if empty >= 0:
        parts.append(Part(f"{number}-{empty}", 0, lane=empty))
    driver.offer("rows", [Unit(str(number), tuple(parts))])
    taken = tick(driver, now_seconds)
    assert taken is not None
    driver.read(0, TickRead(taken.number, 99, {}, {"rows": latest}))
    return taken


def test_the_lane_that_is_farthest_behind_holds_event_time_back() -> None:
    driver = coordinator()
    take(driver, 0, {0: 100, 1: 20}, 0.0)
    passed = tick(driver, 0.0)
    assert passed is not None
    assert passed.complete_to == 20 // EVERY
    take(driver, 1, {0: 900}, 1.0)
    assert tick(driver, 1.0) is None
    take(driver, 2, {1: 500}, 2.0)
    passed = tick(driver, 2.0)
    assert passed is not None
    assert passed.complete_to == 500 // EVERY


def test_a_lane_without_a_row_is_waited_for_until_it_was_silent_for_long_enough() -> None:
    driver = coordinator("10 seconds")
    take(driver, 0, {0: 100}, 0.0, empty=1)
    assert tick(driver, 1.0) is None
    take(driver, 1, {0: 150}, 8.0)
    assert any("waits for 1 of its 2 partitions" in words for words in driver.event_time_words(8.0))
    assert driver.seconds_until_due(9.5) == pytest.approx(0.5)
    assert tick(driver, 9.9) is None
    passed = tick(driver, 10.0)
    assert passed is not None
    assert passed.complete_to == 150 // EVERY
    take(driver, 2, {1: 400}, 11.0)
    take(driver, 3, {0: 300}, 12.0)
    passed = tick(driver, 12.0)
    assert passed is not None
    assert passed.complete_to == 300 // EVERY, "it counts again"


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200)), min_size=1, max_size=12)


@given(ROWS)
def test_event_time_is_the_least_of_the_greatest_of_each_lane(rows: list[tuple[int, int]]) -> None:
    check_lanes(rows)


def test_a_fast_lane_that_makes_rows_of_a_slow_one_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fastest(self: Lanes, name: str) -> int | None:
        return max(self._latest.get(name, {}).values(), default=None)

    monkeypatch.setattr(Lanes, "latest", fastest)
    with pytest.raises(AssertionError, match="assert 20 == 0"):
        check_lanes([(0, 100), (1, 20)])


def check_lanes(rows: list[tuple[int, int]]) -> None:
    """Event time passes as brute force says, after each row of a lane."""
    driver = coordinator()
    take(driver, 0, {0: 0, 1: 0, 2: 0}, 0.0)
    greatest, complete = {0: 0, 1: 0, 2: 0}, 0
    for number, (lane, instant) in enumerate(rows, 1):
        taken = take(driver, number, {lane: instant}, 0.0)
        assert taken.complete_to == complete
        greatest[lane] = max(greatest[lane], instant)
        complete = max(complete, min(greatest.values()) // EVERY)
        passed = tick(driver, 0.0)
        assert (complete if passed is None else passed.complete_to) == complete
