"""Failures that cannot get better: a query that meets one ends soon, and says which operator it was.

A failure may be chance, so that it is gone over once. What comes again in the same way would come for ever.
Each of these was once taken for chance: what is no ``Exception``, what cannot say its message, and what says
it in other words each time. The same in this process and in processes of their own.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import OperatorError


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__("cannot travel")
        self.held = (each for each in "")


def interrupt() -> None:
    raise KeyboardInterrupt


def close() -> None:
    raise GeneratorExit


def leave() -> None:
    raise SystemExit(3)


def unprintable() -> None:
    raise UnprintableError


def unpicklable() -> None:
    raise UnpicklableError


def other_words() -> None:
    raise ValueError(f"{object()}")


FAILURES: dict[Callable[[], None], str] = {
    interrupt: "KeyboardInterrupt",
    close: "GeneratorExit",
    leave: "SystemExit: 3",
    unprintable: "UnprintableError, whose message cannot be read because its __str__ raises RuntimeError",
    unpicklable: "UnpicklableError: cannot travel",
    other_words: "ValueError: <object object at 0x",
}


def run(flow: ps.Dataflow, source: object, place: Path, processes: int | None) -> ps.Query:
    query = flow.start(
        numbers=source,
        checkpoint=place / "checkpoint",
        output=place / "out",
        available_now=True,
        processes=processes,
        options=ps.QueryOptions(restarts=ps.RestartPolicy(pause_seconds=0.0)),
    )
    try:
        query.await_termination()
    finally:
        query.stop(finish=False)
    return query


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("processes", [None, 2])
def test_what_a_function_raises_again_and_again_ends_the_query_with_the_name_of_its_operator(
    fail: Callable[[], None],
    processes: int | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        fail()
        return batch

    flow = ps.Dataflow("hopeless")
    flow.output(
        "out", flow.stream_input("numbers", "x long").exchange("x").map_batches(function).named("rank")
    )
    source = pa.table({"x": [1, 2, 3]})
    with pytest.raises(OperatorError, match=rf"^operator 'rank' failed .*{re.escape(FAILURES[fail])}"):
        run(flow, source, tmp_path, processes)
    said = [each for each in caplog.records if "rank" in each.getMessage()]
    assert len(said) <= 1, "it was tried more than twice"
