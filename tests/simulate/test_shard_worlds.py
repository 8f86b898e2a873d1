"""Exchanges by a function in simulated worlds: schedules, crashes and numbers of workers change no result.

Families, and what only each can find:
- plain worlds: a batch that is split otherwise than it is counted, under delays and schedules by chance;
- crashes: rows sent ahead through the function, and state behind it, of generations of one size;
- generations of different sizes: state that is dealt out otherwise than rows are sent. A dealer that goes by
  the hash of the keys, as for other exchanges, must be found.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.query import mission
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled, simulator_of
from support.worlds import SCHEMA, Seen, Steps, some_rows

Sizes = set[int]


def pairs(batch: pa.RecordBatch) -> pa.Array:
    """Two keys that follow each other are of one shard."""
    return pc.divide(batch["k"], 2)


def by_length(batch: pa.RecordBatch) -> list[int]:
    """Words of equal letters go together, whatever their order."""
    return [sum(map(ord, key)) for key in batch["key"].to_pylist()]


def sharded() -> ps.Dataflow:
    """State by key behind a function, and the rows of another input sent ahead to it."""
    flow = ps.Dataflow("sharded")
    numbers, late = (
        flow.stream_input("numbers", "k long, v long"),
        flow.stream_input("late", "k long, v long"),
    )
    seen = ps.operator(
        "seen",
        Seen(),
        numbers=numbers.exchange("k", by=pairs),
        late=late.delay(1).exchange("k", by=pairs),
    )
    flow.output("out", seen)
    return flow


def looping() -> ps.Dataflow:
    flow = ps.Dataflow("looping")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        entered = loop.enter(rows.exchange(by=by_length))
        steps = ps.operator("steps", Steps(), rows=entered.union(again).exchange(by=by_length))
        loop.feedback(again, steps)
        flow.output("down", loop.leave(steps))
    return flow


def check_generations(seeds: range) -> Sizes:
    """The first world of generations of different sizes that publishes something else is an error."""
    simulator = simulator_of(sharded())
    simulator.world = Rescaled
    sizes: Sizes = set()
    for case in cases(seeds, 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    return sizes


def test_schedules_and_delays_change_no_result() -> None:
    flow = looping()
    report = simulate(
        Simulator(flow.plan, prepared(flow.plan, {"rows": some_rows()})), cases(range(40), 1, 4, (0, 0))
    )
    assert report.finding is None, report.finding
    assert not report.unknown


def test_crashes_change_no_result() -> None:
    report = simulate(simulator_of(sharded()), cases(range(20), 1, 4, (0, 4)))
    assert report.finding is None, report.finding
    assert not report.unknown


def test_generations_of_different_sizes_change_no_result() -> None:
    assert check_generations(range(30)) == {1, 2, 3, 4}


def test_a_dealer_that_goes_by_the_hash_of_keys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(plan: Any) -> dict[str, Any]:  # noqa: ANN401 - as the mission asks
        return {}

    monkeypatch.setattr(mission, "dealers_of", none)
    with pytest.raises(AssertionError, match=r"Kind\.DIFFERS"):
        check_generations(range(30))
