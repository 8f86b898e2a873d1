"""``pointstamp simulate`` as a user meets it: what it prints, how it ends, what it says to mistakes.

Families, and what only each can find:
- the command in a process of its own: which stream a line goes to, plain lines, a bar on a terminal;
- ``main`` in this process: exit codes, options, what is printed for each kind of finding;
- the printed command: that it repeats the failure, by being run.
"""

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pointstamp.cli.main import main
from pointstamp.verify.conformance import Status
from pointstamp.verify.trace import load
from support.sights import KEEPS_FOR_EVER

COMMAND = (sys.executable, "-m", "pointstamp.cli.main", "simulate")

RIGHT = """
import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string")
flow.output("counts", words.count("word"))

def inputs():
    return {"words": [[{"word": word} for word in "abca"], [{"word": "b"}]]}
"""

WRONG = """
import pyarrow as pa
import pointstamp as ps


class Latest:
    "Wrong: the last row to arrive wins, and nothing says which arrives last."

    outputs = "sensor string, celsius long"

    def __init__(self):
        self.latest = {}

    def on_receive(self, context, input, batch):
        for row in batch.to_pylist():
            self.latest[row["sensor"]] = row["celsius"]
        context.notify_at()

    def on_notify(self, context):
        rows = [{"sensor": sensor, "celsius": value} for sensor, value in sorted(self.latest.items())]
        context.send(pa.RecordBatch.from_pylist(rows, schema=context.schema()))


flow = ps.Dataflow("latest")
readings = flow.stream_input("readings", "sensor string, celsius long")
flow.output("latest", ps.operator("latest", Latest(), readings=readings.exchange("sensor")))
inputs = {
    "readings": [[{"sensor": name, "celsius": n} for n, name in enumerate("abcabc")] for _ in range(3)]
}
"""


@pytest.fixture
def write(tmp_path: Path) -> "Writer":
    return Writer(tmp_path)


class Writer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, text: str, name: str = "flow.py") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


# The command in a process of its own.


def test_a_right_flow_ends_with_code_0_one_line_and_plain_news(write: Writer) -> None:
    done = subprocess.run(
        [*COMMAND, write(RIGHT), "--seeds", "20", "--workers", "1-3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "valid: 21 worlds on 1-3 workers emitted the same as one worker, and the verifier"
    )
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stderr + done.stdout
    assert done.stderr.splitlines()[-1] == "21 of 21 worlds"


def test_on_a_terminal_a_bar_is_drawn_and_the_result_is_left(write: Writer) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, write(RIGHT), "--seeds", "20"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break  # the other end is closed
        if not part:
            break
        drawn += part
    os.close(ours)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.startswith(b"valid: 21 worlds")
    assert b"worlds" in drawn
    assert b"\x1b[" in drawn


# Findings.


def test_a_flow_that_depends_on_arrival_order_is_found_and_the_printed_command_repeats_it(
    write: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", write(WRONG), "--seeds", "50"]) == 1
    out, err = capsys.readouterr()
    first, second, *_ = out.splitlines()
    assert first.startswith("differs: seed ")
    assert second.startswith("shrunk: it takes 1 worker, 1 epoch, 2 rows, ")
    assert "output 'latest', epoch 0, differs from the one-worker run" in out
    assert "shrinking it" in err
    replay = out.splitlines()[-1]
    assert replay.startswith("replay: pointstamp simulate ")
    assert main(shlex.split(replay)[2:]) == 1
    again, _ = capsys.readouterr()
    assert again.splitlines()[-1] == replay
    assert again.splitlines()[0] == "output 'latest', epoch 0, differs from the one-worker run"


def test_a_flow_that_never_completes_is_invalid_with_the_property_and_the_prefix(
    write: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", write(KEEPS_FOR_EVER)]) == 1
    out, _ = capsys.readouterr()
    assert "invalid at the end: Completes (when all inputs are closed and nothing is left to do" in out
    assert "worker 0 never gives up +1 of (0,) at output 0 of 'keeps'" in out
    assert "     0  worker 0 started, one of 1" in out
    assert out.splitlines()[-1].startswith("replay: ")


def test_json_is_one_document_with_the_finding(write: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", write(WRONG), "--json"]) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert document["verdict"] == "invalid"
    assert document["finding"]["kind"] == "differs"
    assert document["finding"]["is_repeatable"] is True
    assert document["finding"]["replay"].startswith("pointstamp simulate ")
    assert main(["simulate", write(RIGHT), "--json", "--seeds", "5"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["worlds"], document["finding"]) == ("valid", 6, None)


def test_the_trace_of_the_failing_world_is_saved_and_judged_alike(
    write: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "failing.trace"
    assert main(["simulate", write(KEEPS_FOR_EVER), "--trace", str(file)]) == 1
    trace = load(file)
    assert trace.judged().property == "Completes"
    assert trace.header.replay == capsys.readouterr().out.splitlines()[-1].removeprefix("replay: ")


def test_a_replayed_world_says_what_came_of_it_and_saves_its_trace(
    write: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "world.trace"
    flow = write(RIGHT)
    assert main(["simulate", flow, "--replay", "7", "--workers", "3", "--trace", str(file)]) == 0
    assert capsys.readouterr().out.startswith("valid: seed 7 on 3 workers, ")
    saved = file.read_bytes()
    assert load(file).judged().status is Status.VALID
    assert main(["simulate", flow, "--replay", "7", "--workers", "3", "--trace", str(file)]) == 0
    assert file.read_bytes() == saved


@pytest.mark.parametrize("crashes", [[], ["--crashes", "1-2"]], ids=["plain", "crashes"])
def test_the_last_world_is_saved_where_all_is_well(
    crashes: list[str], write: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "last.trace"
    assert main(["simulate", write(RIGHT), "--seeds", "3", "--record", str(file), *crashes]) == 0
    assert "the events of seed 2 on 3 workers" in capsys.readouterr().out
    assert file.stat().st_size > 0
    if not crashes:
        assert load(file).judged().status is Status.VALID


# Mistakes.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "has no flow; write flow = ps.Dataflow(...)"),
        ("flow = 1", "flow must be a pointstamp.Dataflow, not a int"),
        (RIGHT.replace("def inputs", "def others"), "has no inputs; write inputs = {'words': [rows, rows]}"),
        (
            RIGHT.replace('"words": [[', '"word": [['),
            "has the inputs 'words', got epochs for 'word'",
        ),
        (
            RIGHT.replace("return {", "return 1/0, {"),
            "inputs() failed: ZeroDivisionError: division by zero (line 9)",
        ),
        (
            "import nothing_of_this_name",
            "cannot be run: ModuleNotFoundError: No module named 'nothing_of_this_",
        ),
        (
            RIGHT.replace("flow = ", "from pointstamp.topology.domain import Epochs\nflow = ").replace(
                'Dataflow("words"', 'Dataflow("words", times=type("Own", (Epochs,), {})()'
            ),
            "input 'words', item 0: items must be (time, rows) pairs, because the flow has custom times",
        ),
        ("flow = = 1", "cannot be run: SyntaxError: invalid syntax (line 1)"),
        (RIGHT.replace('count("word")', 'count("wort")'), "needs the column 'wort'"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_line_and_code_2(
    text: str, words: str, write: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", write(text)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("pointstamp: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.py"], "absent.py: there is no such file"),
        (["FLOW", "--seeds", "0"], "needs a number of at least 1, not '0'"),
        (["FLOW", "--workers", "4-1"], "needs a number of workers, 2, or a range, 1-4, not '4-1'"),
        (["FLOW", "--workers", "many"], "needs a number of workers, 2, or a range, 1-4, not 'many'"),
        (["FLOW", "--replay", "first"], "argument --replay: invalid int value: 'first'"),
        (["FLOW", "--rows", "words=0.1"], "--rows belongs to --replay SEED, which is missing"),
        (["FLOW", "--replay", "1", "--rows", "words"], "expected rows as input=epoch.row"),
        (["FLOW", "--replay", "1", "--choices", "x"], "expected choices as numbers and ranges"),
        (["FLOW", "--replay", "1", "--trace", "/nowhere/at/all"], "the trace cannot be written to /nowhere"),
        (["FLOW", "--seed", "3"], "unknown argument '--seed'"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_a_command_line_that_cannot_be_used_gets_one_line_and_code_2(
    arguments: list[str], words: str, write: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = write(RIGHT)
    assert main(["simulate", *(flow if each == "FLOW" else each for each in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
