"""``pointstamp run --stream``: folders are followed, epochs are published, and the same command continues.

Families, and what only each can find:
- ``main`` in this process with ``--available-now``: formats, going on, static inputs, and what each mistake
  gets before anything is written;
- the command in a process of its own: that Ctrl-C and SIGTERM let epochs on their way come to their end;
- on Spark: that the flow's own functions reach the workers, and that the output is the same.
"""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.cli.main import main

COMMAND = (sys.executable, "-m", "pointstamp.cli.main", "run", "flow.py", "--stream")

FLOW = """
import pointstamp as ps

def doubled(row):
    return {"word": row["word"], "n": row["n"] * 2}

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string, n long")
twice = words.map(doubled, "word string, n long")
flow.output("totals", twice.group_by("word", running=True).agg(total=ps.sum("n")))
"""

TWO_INPUTS = """
import pointstamp as ps

flow = ps.Dataflow("two")
words = flow.stream_input("words", "word string, n long")
more = flow.stream_input("more", "word string, n long")
flow.output("totals", words.union(more).group_by("word", running=True).agg(total=ps.sum("n")))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def totals(output: str = "out") -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in ps.read_changes(output, "totals").to_pylist())


def run(*options: str) -> int:
    return main(["run", "flow.py", "--stream", "--available-now", "--input", "words=in", *options])


def test_the_same_command_goes_on_where_the_one_before_has_stopped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\nb,2\n")
    assert run("--output", "out") == 0
    assert capsys.readouterr().out.startswith("1 epoch published, up to epoch 0; the output is in out, ")
    (folder / "in" / "2.csv").write_text("word,n\na,5\n")
    assert run("--output", "out", "--workers", "2") == 0
    assert capsys.readouterr().out.startswith("1 epoch published, up to epoch 1; ")
    assert totals() == [(0, "a", 2), (0, "b", 4), (1, "a", 12)]
    assert main(["snapshots", "out/_checkpoint"]) == 0


def test_json_and_parquet_are_followed_and_the_checkpoint_lies_where_it_is_said(folder: Path) -> None:
    (folder / "in" / "1.jsonl").write_text('{"word": "a", "n": 1}\n')
    assert run("--output", "out", "--checkpoint", "saved") == 0
    assert totals() == [(0, "a", 2)]
    assert main(["snapshots", "saved"]) == 0
    (folder / "other").mkdir()
    pq.write_table(pa.table({"word": ["b"], "n": [3], "unused": [0]}), folder / "other" / "1.parquet")
    assert run("--output", "out2", "--input", "words=other") == 2  # given twice
    command = ["run", "flow.py", "--stream", "--available-now", "--input", "words=other", "--output", "out2"]
    assert main(command) == 0
    assert totals("out2") == [(0, "b", 6)]


def test_an_input_that_is_a_file_is_read_once_beside_one_that_is_followed(folder: Path) -> None:
    (folder / "flow.py").write_text(TWO_INPUTS)
    (folder / "more.csv").write_text("word,n\na,10\n")
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert run("--input", "more=more.csv", "--output", "out") == 0
    (folder / "in" / "2.csv").write_text("word,n\na,2\n")
    assert run("--input", "more=more.csv", "--output", "out") == 0
    assert totals() == [(0, "a", 11), (1, "a", 13)]


def test_a_column_may_say_the_epoch_of_what_is_there_now(folder: Path) -> None:
    (folder / "in" / "1.csv").write_text("word,n,day\na,1,3\nb,2,0\n")
    assert run("--output", "out", "--epoch", "day") == 0
    assert totals() == [(0, "b", 4), (3, "a", 2)]


def test_a_declared_column_may_say_the_epoch_too_and_stays(folder: Path) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,3\nb,2\n")
    assert run("--output", "out", "--epoch", "n") == 0
    assert totals() == [(2, "b", 4), (3, "a", 6)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--input", "words=in"], "give --output DIR"),
        (["--output", "out"], "give --input words=PATH"),
        (["--input", "words=nowhere", "--output", "out"], "there is no file or folder nowhere"),
        (["--input", "words=one.csv", "--output", "out"], "which have an end. Leave --stream out"),
        (["--input", "words=bad", "--output", "out"], "has no column 'n'; it has 'word'"),
        (["--input", "words=in", "--output", "out", "--epoch", "n"], "add --available-now"),
        (["--input", "words=in", "--output", "bad"], "bad is not empty, and bad/_checkpoint is not a check"),
        (["--input", "words=in", "--output", "one.csv"], "needs a folder, and one.csv is a file"),
        (["--input", "words=in", "--output", "out", "--format", "xml"], "unknown format 'xml'"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_a_mistake_gets_one_line_that_names_it_before_anything_is_written(
    options: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.csv").write_text("word,n\na,1\n")
    (folder / "bad").mkdir()
    (folder / "bad" / "1.csv").write_text("word\na\n")
    assert main(["run", "flow.py", "--stream", *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert not (folder / "out").exists()


def test_options_of_streams_are_refused_without_stream(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (["--checkpoint", "saved"], ["--available-now"], ["--format", "csv"]):
        assert main(["run", "flow.py", "--input", "words=in", *option]) == 2
        assert "is for streams; add --stream" in capsys.readouterr().err


def test_an_exception_of_the_flow_ends_the_stream_with_its_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "flow.py").write_text(FLOW.replace('row["n"] * 2', 'row["n"] // 0'))
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert run("--output", "out") == 1
    assert "operator 'map' failed" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_lets_epochs_on_their_way_come_to_their_end(how: signal.Signals, folder: Path) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    with subprocess.Popen(
        [*COMMAND, "--input", "words=in", "--output", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "1 epoch published" in line)
        process.send_signal(how)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, said + err
    assert out.startswith("1 epoch published, up to epoch 0; ")
    assert "stopping after the epochs in flight" in err
    assert totals() == [(0, "a", 2)]


@pytest.mark.spark
@pytest.mark.long
def test_on_spark_a_folder_is_followed_with_the_functions_of_the_flows_file(folder: Path) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    (folder / "in" / "2.csv").write_text("word,n\na,5\n")
    options = ["--input", "words=in", "--output", "out", "--available-now", "--master", "local[2]"]
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 epochs published, up to epoch 1; ")
    assert totals() == [(0, "a", 2), (1, "a", 12)]


# What else a query can be told.


def test_a_stream_has_a_dashboard_where_it_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert run("--output", "out", "--dashboard") == 0
    assert "the dashboard of 'words' is at http://127.0.0.1:" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run("--output", "out", "--dashboard", str(port)) == 2
    assert f"cannot listen at port {port}" in capsys.readouterr().err


def test_a_changed_flow_goes_on_where_that_is_accepted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert run("--output", "out") == 0
    changed = FLOW.replace('row["n"] * 2', 'row["n"] * 3')
    (folder / "flow.py").write_text(changed)
    assert run("--output", "out") != 0
    assert "accept_changes" in capsys.readouterr().err
    (folder / "in" / "2.csv").write_text("word,n\na,1\n")
    assert run("--output", "out", "--accept") == 0
    assert totals() == [(0, "a", 2), (1, "a", 5)]


def test_the_memory_of_tables_can_be_limited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert run("--output", "out", "--spill", "much") == 2
    assert "run: --spill much: " in capsys.readouterr().err
    assert run("--output", "out", "--spill", "64MB") == 0
    assert totals() == [(0, "a", 2)]
    assert main(["run", "flow.py", "--input", "words=in", "--spill", "64MB"]) == 0


@pytest.mark.parametrize("option", ["--accept", "--dashboard"])
def test_what_only_streams_have_is_rejected_elsewhere(
    option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in" / "1.csv").write_text("word,n\na,1\n")
    assert main(["run", "flow.py", "--input", "words=in", option]) == 2
    assert f"run: {option} is for streams; add --stream." in capsys.readouterr().err
