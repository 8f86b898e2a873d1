"""The display of a query: what a moment looks like, and that a real query is shown without being disturbed.

Families, and what only each can find:
- moments made by hand: the words and their order, brackets in names, and what is left out;
- a real query in this process, shown to a pipe: that rows are counted over generations, that what the query
  logs comes as a note and not twice, and that the logger is left as it was.
"""

import io
import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import pointstamp as ps
from pointstamp.driver.status import InputStatus, KeptStatus, LoopStatus, OutputStatus, RunStatus
from pointstamp.show.query_display import QueryDisplay, ShownMoment, line, panel

STATUS = RunStatus(
    "graph [1]",
    (InputStatus("edges", 10, ((7,),)),),
    (OutputStatus("labels", 4, 7, ((7,),), ("input 'edges' may still send at epoch 7",), 0),),
    (LoopStatus(("spread",), 7, 0, 3, 2),),
    is_complete=False,
)


MOMENT = ShownMoment(
    name="graph [1]",
    elapsed_seconds=12.34,
    phase="working",
    epochs=7,
    rows=12_000,
    rows_per_second=1234.5,
    generation=1,
    restarts=0,
    status=STATUS,
    facts=[("files", "8 of 9")],
)


def test_the_line_looks_like_this() -> None:
    assert line(MOMENT) == (
        " 12.3 s: 7 epochs published, 12,000 rows read (1,234/s), files 8 of 9; working; "
        "loop 'spread' in round 3 of epoch 7; frontier of 'labels' epoch 7; "
        "held back: input 'edges' may still send at epoch 7"
    )


def test_who_waits_for_data_needs_no_reason_and_restarts_are_told() -> None:
    said = line(replace(MOMENT, phase="waiting for data", epochs=1, generation=3, restarts=2))
    assert "1 epoch published" in said
    assert said.endswith("generation 3 after 2 restarts; waiting for data")


def test_the_panel_shows_names_in_brackets_and_every_fact() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(panel(replace(MOMENT, restarts=1, generation=2)))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for words in ("graph [1]  12.3 s  working", "12,000  (1,234 per second)", "8 of 9", "2, after 1 restart"):
        assert words in shown
    assert "in round 3 of epoch 7" in shown


def test_the_panel_names_the_largest_things_that_are_kept_and_adds_up_the_others() -> None:
    kept = tuple(KeptStatus(f"join {n}: left", 10 * n, 1000 * n) for n in range(1, 11))
    console = Console(file=io.StringIO(), width=100)
    console.print(panel(replace(MOMENT, status=replace(STATUS, kept=kept))))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for words in ("kept:", "55,000 bytes", "join 10: left", "100 rows, 10,000 bytes", "30 rows, 3,000 bytes"):
        assert words in shown
    assert "and 2 more" in shown
    assert "join 2: left" not in shown


def test_a_query_is_shown_and_what_it_logs_is_a_note(tmp_path: Path) -> None:
    flow = ps.Dataflow("words")
    flow.output("counts", flow.stream_input("words", "word string").group_by("word", running=True).count())
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"word": ["a", "b"]}), tmp_path / "in" / f"{number}.parquet")
    query = flow.start(
        words=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "saved"),
        output=str(tmp_path / "out"),
        available_now=True,
    )
    console = Console(file=io.StringIO())
    logger = logging.getLogger("pointstamp.query")
    before = (logger.propagate, list(logger.handlers))
    with QueryDisplay(query, facts=lambda: [("folder", "in")], console=console) as display:
        while display.wait():
            pass
        logger.warning("worker %s was lost", 1)
        display.note("noted")
        display.show()
        display.show()
    query.stop()
    assert (logger.propagate, logger.handlers) == before
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert shown.count("noted") == shown.count("worker 1 was lost") == 1
    (last,) = [said for said in shown if said.endswith("; ended")]  # the same moment is not said twice
    assert "3 epochs published, 6 rows read (" in last
    assert last.endswith(", folder in; ended")
