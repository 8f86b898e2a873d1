"""The live display, with a clock that stands still until it is told to continue.

- *where*: a table on a terminal, lines elsewhere, nothing when silent.
- *when*: not more often than the clock allows, and no status is made that is not shown.
- *what*: the texts themselves; only these find a column with the wrong number in it.
- *the end*: totals stay after a run, and an error inside is not hidden or made worse.
"""

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from rich.console import Console

import pointstamp as ps
from pointstamp.driver.run_loop import count_rows
from pointstamp.driver.status import InputStatus, LoopStatus, OutputStatus, RunStatus, status_of
from pointstamp.show.live import (
    DRAW_SECONDS,
    LINE_SECONDS,
    LiveDisplay,
    MonotonicClock,
    Snapshot,
    line,
    tables,
)

STATUS = RunStatus(
    flow="components",
    inputs=(InputStatus("edges", 12_000, ((4,),)), InputStatus("seeds", 7, ())),
    outputs=(
        OutputStatus(
            "components",
            rows=300,
            epochs_complete=3,
            frontier=((3,),),
            held_by=(
                "2 messages at (3, 11) for input 1 of 'lowest label'",
                "input 'edges' may still send at 4",
            ),
            held_by_more=2,
        ),
        OutputStatus("sizes [red]", 0, None, (), (), 0),
    ),
    loops=(LoopStatus(("trim", "reach"), 3, 11, 13, 2), LoopStatus(("trim",), 3, 5, 5, 2)),
    is_complete=False,
)


class HandClock:
    """Continues when it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now_seconds(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(width: int = 140) -> Console:
    return Console(file=Terminal(), force_terminal=True, width=width, record=True, color_system=None)


def pipe() -> Console:
    return Console(file=io.StringIO(), width=80)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# Where.


def test_a_pipe_gets_plain_lines_without_control_codes_however_long() -> None:
    console, clock = pipe(), HandClock()
    with LiveDisplay.for_stream(console, clock=clock) as display:
        for _ in range(3):
            clock.seconds += LINE_SECONDS
            display.update(STATUS)
    text = written(console)
    assert len(text.splitlines()) == 4
    assert text.replace("\n", "").isprintable()
    assert all(row.startswith("components ") for row in text.splitlines())


def test_a_terminal_gets_a_table_that_is_drawn_over_itself() -> None:
    console, clock = terminal(), HandClock()
    with LiveDisplay.for_stream(console, clock=clock) as display:
        for _ in range(2):
            clock.seconds += DRAW_SECONDS
            display.update(STATUS)
    assert "\x1b[2K" in written(console)
    assert "held back by" in console.export_text()


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console, clock = terminal(), HandClock()
    with LiveDisplay.for_stream(console, clock=clock) as display:
        display.update(STATUS)
    assert "\x1b" not in written(console)
    assert written(console).count("\n") == 1


def test_a_silent_display_shows_nothing_and_asks_for_no_status() -> None:
    console, clock = terminal(), HandClock()

    def never() -> RunStatus:
        raise AssertionError("a status was asked for")

    with LiveDisplay.for_stream(console, silent=True, clock=clock) as display:
        clock.seconds += 100
        display.update(never)
    assert written(console) == ""


def test_the_clock_of_the_machine_never_goes_back() -> None:
    clock = MonotonicClock()
    assert clock.now_seconds() <= clock.now_seconds()


# When.


@pytest.mark.parametrize(("make", "interval"), [(terminal, DRAW_SECONDS), (pipe, LINE_SECONDS)])
def test_a_status_is_made_only_when_it_is_shown(make: Callable[[], Console], interval: float) -> None:
    console, clock = make(), HandClock()
    made: list[float] = []

    def status() -> RunStatus:
        made.append(clock.seconds)
        return STATUS

    with LiveDisplay.for_stream(console, clock=clock) as display:
        for _ in range(100):
            display.update(status)
            clock.seconds += interval / 8
    assert len(made) == 13  # twelve in the time given, and one at the end
    assert all(b - a >= interval for a, b in pairwise(made[:-1]))


# What.


def shown(snapshot: Snapshot, width: int = 140) -> list[str]:
    console = terminal(width)
    console.print(tables(snapshot))
    return [row.rstrip() for row in console.export_text().splitlines()]


SNAPSHOT = Snapshot(STATUS, 83.4, {"edges": 1_500.0, "seeds": 0.0}, {"components": 2.5, "sizes [red]": 0.0})


def test_the_tables_look_like_this() -> None:
    assert shown(SNAPSHOT) == [
        "components  1 min 23 s  3 epochs complete",
        "",
        "input  rows in  rows/s  may still send at",
        "edges   12,000   1,500  4",
        "seeds        7       0  closed",
        "",
        "loop          epoch     round  messages waiting",
        "trim / reach      3  11 to 13                 2",
        "trim              3         5                 2",
        "",
        "output       rows out  rows/s  epochs complete  waits for  held back by",
        "components        300     2.5                3  3          2 messages at (3, 11) for input 1 of"
        " 'lowest label'",
        "                                                           input 'edges' may still send at 4",
        "                                                           and 2 more",
        "sizes [red]         0       0              all  nothing",
        "",
    ]


def test_a_narrow_terminal_folds_words_and_loses_none() -> None:
    text = "".join("".join(shown(SNAPSHOT, width=80)).split())
    assert "2messages" in text
    assert "label'" in text


def test_the_line_looks_like_this() -> None:
    assert line(SNAPSHOT) == (
        "components 1 min 23 s: 3 epochs complete, 12,007 rows in (1,500/s), 300 rows out (2.5/s); "
        "loop trim / reach: epoch 3 in round 11 to 13; loop trim: epoch 3 in round 5; "
        "components waits for 3, held back by 2 messages at (3, 11) for input 1 of 'lowest label', and 3 more"
    )


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (7_384, "2 h 03 min")]
)
def test_time_is_told_as_people_tell_it(seconds: float, words: str) -> None:
    assert line(replace(SNAPSHOT, elapsed_seconds=seconds)).startswith(f"components {words}: ")


@pytest.mark.parametrize(
    ("epochs", "complete", "words"),
    [
        (0, False, "0 epochs complete"),
        (1, False, "1 epoch complete"),
        (None, False, "running"),
        (None, True, "complete"),
    ],
)
def test_how_far_a_run_is_comes_first(epochs: int | None, complete: bool, words: str) -> None:
    output = replace(STATUS.outputs[0], epochs_complete=epochs)
    status = replace(STATUS, outputs=(output,), is_complete=complete)
    assert line(replace(SNAPSHOT, status=status)).split(": ")[1].startswith(f"{words}, ")


def test_rates_are_those_of_the_last_seconds_and_at_the_end_those_of_the_whole() -> None:
    console, clock = pipe(), HandClock()

    def at(rows: int) -> RunStatus:
        return replace(STATUS, inputs=(InputStatus("edges", rows, ()),))

    with LiveDisplay.for_stream(console, clock=clock) as display:
        for rows in (500, 1_500, 1_500):
            clock.seconds += 10
            display.update(at(rows))
    rates = [row.split(" rows in (")[1].split("/s)")[0] for row in written(console).splitlines()]
    assert rates == ["50", "100", "0", "50"]


def test_a_run_is_shown_from_its_first_step_to_its_end() -> None:
    flow = ps.Dataflow("copy")
    flow.output("out", flow.stream_input("numbers", "x long"))
    console, clock = pipe(), HandClock()
    with flow.open(2) as run, LiveDisplay.for_stream(console, clock=clock) as display:
        rows = count_rows(run)
        run.input("numbers").send(pa.table({"x": [1, 2, 3]}))
        run.settle()
        clock.seconds += 10
        display.update(lambda: status_of(run, rows))
        run.input("numbers").close()
        run.settle()
    assert written(console).splitlines() == [
        "copy 10.0 s: 0 epochs complete, 3 rows in (0.3/s), 0 rows out (0/s); "
        "out waits for 0, held back by input 'numbers' may still send at epoch 0",
        "copy 10.0 s: complete, 3 rows in (0.3/s), 3 rows out (0.3/s)",
    ]


# The end.


def test_totals_stay_when_the_run_is_over_even_if_none_was_shown_before() -> None:
    console, clock = pipe(), HandClock()
    with LiveDisplay.for_stream(console, clock=clock) as display:
        clock.seconds += 1
        display.update(STATUS)
        assert written(console) == ""
    assert "12,007 rows in (12,007/s)" in written(console)


def test_a_display_without_any_status_ends_without_a_word() -> None:
    console = pipe()
    with LiveDisplay.for_stream(console, clock=HandClock()):
        pass
    assert written(console) == ""


@pytest.mark.parametrize("make", [terminal, pipe])
def test_after_an_error_nothing_is_asked_of_the_run_and_the_error_goes_on(
    make: Callable[[], Console],
) -> None:
    clock = HandClock()
    display = LiveDisplay.for_stream(make(), clock=clock)

    def broken() -> RunStatus:
        raise AssertionError("a worker in the middle of something was asked")

    def interrupted() -> None:
        with display:
            display.update(broken)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
