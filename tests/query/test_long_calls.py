"""Operators that are inside of one call for long: the query names them while they are.

Families, and what only each can find:
- what is told, with a clock that the test moves: a long call once, its end once, short ones never;
- queries in processes whose workers are in calls that do not return before the test lets them: only there has
  nobody a thread left that could be asked.
"""

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, cast

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.driver.liveness import LONG_SECONDS, LongCalls
from pointstamp.driver.messages import InCall
from pointstamp.worker.instance import Instance

SECONDS_MAX: Final = 60.0


class Place:
    """As much of an operator as is looked at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.calling: str | None = None
        self.authority = self
        self.time = (3,)

    def enter(self) -> None:
        self.calls += 1
        self.calling = "when it was notified"

    def leave(self) -> None:
        self.calling = None


def watched() -> tuple[Place, LongCalls]:
    place = Place("rank")
    return place, LongCalls(cast("list[Instance]", [Place("other"), place]))


def test_a_long_call_is_told_once_and_so_is_its_end() -> None:
    place, calls = watched()
    place.enter()
    told = [calls.look(LONG_SECONDS / 2 * number) for number in range(5)]
    assert told == [None, None, InCall("rank", "when it was notified", "(3,)", LONG_SECONDS), None, None]
    place.leave()
    assert [calls.look(100.0), calls.look(101.0)] == [InCall("", "", "", 0.0), None]


def test_many_short_calls_are_no_long_one() -> None:
    place, calls = watched()
    for number in range(10):
        place.enter()
        assert calls.look(LONG_SECONDS * number) is None
        place.leave()


def until(condition: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the condition gives
    deadline = monotonic() + SECONDS_MAX
    while not (found := condition()):
        assert monotonic() < deadline
        sleep(0.01)
    return found


@pytest.mark.parametrize("values", [[1], list(range(16))], ids=["one worker", "all workers"])
def test_a_query_names_an_operator_that_has_been_inside_of_one_call_for_long(
    values: list[int], tmp_path: Path
) -> None:
    held = tmp_path / "held"
    held.touch()

    def stay(batch: pa.RecordBatch) -> pa.RecordBatch:
        while held.exists():
            sleep(0.01)
        return batch

    flow = ps.Dataflow("stays")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x").map_batches(stay).named("rank"))
    query = flow.start(
        numbers=pa.table({"x": values}),
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        processes=2,
    )
    try:
        told = until(lambda: query.why("out") if len(query.status["message"].split(";")) > 1 else None)
        assert "inside operator 'rank' for " in told[0]
        assert told[0].endswith(" s, which was called with a batch at input 'in' at (0,)"), told
        assert "inside operator 'rank'" in query.status["message"]
        held.unlink()
        query.process_all_available(SECONDS_MAX)
        until(lambda: "inside" not in query.status["message"])
    finally:
        held.unlink(missing_ok=True)
        query.stop(finish=False)
