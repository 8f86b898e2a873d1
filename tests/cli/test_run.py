"""``pointstamp run``: the flow of a file, from files to files.

Families, and what only each can find:
- ``main`` in this process: formats, epochs, previews, output files, and what each mistake gets;
- the command on a terminal: that the display and the result do not draw over each other;
- on Spark, in a process of its own: that functions of the flow's file and of modules beside it reach the
  tasks, that the output is that of the run without Spark, and that spark-submit runs a flow.
"""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pointstamp.cli.main import main

COMMAND = (sys.executable, "-m", "pointstamp.cli.main", "run")

HELPER = """
FACTOR = 2

def doubled(row):
    return {"word": row["word"], "n": row["n"] * FACTOR}
"""

FLOW = """
import helper
import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string, n long")
doubled = words.map(lambda row: helper.doubled(row), "word string, n long")
flow.output("totals", doubled.group_by("word", running=True).agg(total=ps.sum("n")))
"""

COUNTED = """
flow.output("counts", words.to_table().count("word"))
"""
COUNTS = ["{'word': '007', 'count': 2}", "{'word': 'b', 'count': 1}"]

OWN_INPUTS = """
import pointstamp as ps

flow = ps.Dataflow("words")
flow.output("counts", flow.stream_input("words", "word string").count("word"))

def inputs():
    return {"words": [[{"word": word} for word in "abca"], [], [{"word": "b"}]]}
"""

OWN_TIMES = """
import pointstamp as ps

times = ps.timely.Stacks(deepest=4)
flow = ps.Dataflow("calls", times=times)
flow.output("calls", flow.stream_input("calls", "n long"))
inputs = {"calls": [(("call", ()), [{"n": 1}])]}
"""

TABLE = pa.table({"day": [1, 0, 1], "word": ["007", "007", "b"], "n": [2, 1, 5], "unused": ["x", "y", "z"]})
TOTALS = {(0, "007", 2), (1, "007", 6), (1, "b", 10)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "flow.py").write_text(FLOW)
    pq.write_table(TABLE, tmp_path / "words.parquet")
    pyarrow.csv.write_csv(TABLE, tmp_path / "words.csv")
    lines = [f'{{"day": {r["day"]}, "word": "{r["word"]}", "n": {r["n"]}}}' for r in TABLE.to_pylist()]
    (tmp_path / "words.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def totals_in(folder: Path) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in ds.dataset(folder / "totals").to_table().to_pylist()}


# In this process.


@pytest.mark.parametrize("name", ["words.parquet", "words.csv", "words.jsonl"])
def test_each_format_is_read_as_the_types_that_the_flow_declares(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"words={folder / name}"
    assert main(["run", str(folder / "flow.py"), "--input", given, "--epoch", "day"]) == 0
    out, err = capsys.readouterr()
    *shown, summary = out.splitlines()
    assert shown == [
        "epoch 0, totals: 1 row",
        "  word  total",
        "  007   2",
        "epoch 1, totals: 2 rows",
        "  word  total",
        "  007   6",
        "  b     10",
    ]
    assert summary.startswith("2 epochs, 3 rows in, 3 rows out, ")
    assert err == ""


@pytest.mark.parametrize("name", ["words.parquet", "words.csv", "words.jsonl"])
def test_a_column_that_the_flow_declares_may_say_the_epoch_and_stays(name: str, folder: Path) -> None:
    given = ["--input", f"words={folder / name}", "--epoch", "n", "--output", str(folder / "out")]
    assert main(["run", str(folder / "flow.py"), *given]) == 0
    assert totals_in(folder / "out") == {(1, "007", 2), (2, "007", 6), (5, "b", 10)}


def test_an_output_has_one_parquet_file_for_each_epoch_and_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "out"
    given = ["--input", f"words={folder / 'words.parquet'}", "--epoch", "words=day"]
    assert main(["run", str(folder / "flow.py"), *given, "--output", str(out), "--workers", "3"]) == 0
    assert totals_in(out) == TOTALS
    files = sorted(path.name for path in (out / "totals").iterdir())
    assert files == ["epoch-000000000000.parquet", "epoch-000000000001.parquet"]
    assert capsys.readouterr().out.endswith(f"; the output is in {out}\n")


def test_without_an_epoch_column_all_rows_of_a_folder_are_epoch_0(folder: Path) -> None:
    parts = folder / "parts"
    for number in range(2):
        (parts / f"day={number}").mkdir(parents=True)
        pq.write_table(TABLE.drop_columns(["day"]).slice(number, 1), parts / f"day={number}" / "a.parquet")
    (parts / "_SUCCESS").touch()
    flow, given = str(folder / "flow.py"), f"words={parts}"
    assert main(["run", flow, "--input", given, "--output", str(folder / "all")]) == 0
    assert totals_in(folder / "all") == {(0, "007", 6)}
    # What a folder's name says is a column, too.
    assert main(["run", flow, "--input", given, "--epoch", "day", "--output", str(folder / "days")]) == 0
    assert totals_in(folder / "days") == {(0, "007", 4), (1, "007", 6)}


def test_without_input_the_files_own_inputs_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flow.py").write_text(OWN_INPUTS)
    assert main(["run", str(tmp_path / "flow.py")]) == 0
    out = capsys.readouterr().out
    assert "epoch 1, counts: 0 rows\nepoch 2, counts: 1 row\n" in out
    assert "3 epochs, 5 rows in, 4 rows out, " in out


def test_a_flow_with_times_of_its_own_runs_with_its_own_inputs_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "calls.py").write_text(OWN_TIMES)
    assert main(["run", str(folder / "calls.py")]) == 0
    assert "time ('call', ()), calls: 1 row" in capsys.readouterr().out
    for options in (["--input", f"calls={folder / 'words.csv'}"], ["--output", str(folder / "out")]):
        assert main(["run", str(folder / "calls.py"), *options]) == 2
        assert "has custom times" in capsys.readouterr().err


def test_a_table_is_shown_and_written_as_its_changes_and_as_it_is_at_the_end(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "flow.py").open("a") as flow:
        flow.write(COUNTED)
    command = ["run", str(folder / "flow.py"), "--input", f"words={folder / 'words.csv'}", "--epoch", "day"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "epoch 1, counts: 3 rows\n  word  count  diff\n" in shown
    end = shown[shown.index("at the end, counts: 2 rows\n  word  count\n") :].splitlines()
    assert sorted(end[2:4]) == ["  007   2", "  b     1"]
    assert main([*command, "--output", str(folder / "out")]) == 0
    assert sorted(map(str, pq.read_table(folder / "out" / "counts.parquet").to_pylist())) == COUNTS
    assert sum(pq.read_table(file).num_rows for file in (folder / "out" / "counts").iterdir()) == 4


def test_an_output_stays_in_its_folder_whatever_its_name(folder: Path) -> None:
    (folder / "up.py").write_text(OWN_INPUTS.replace('"counts"', '"../a b"'))
    assert main(["run", str(folder / "up.py"), "--output", str(folder / "out")]) == 0
    assert [path.name for path in (folder / "out").iterdir()] == ["%2E.%2Fa%20b"]


def test_a_long_result_is_cut_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = pa.table({"day": list(range(30)) * 11, "word": [f"w{n}" for n in range(330)], "n": [1] * 330})
    pq.write_table(many, folder / "many.parquet")
    given = ["--input", f"words={folder / 'many.parquet'}", "--epoch", "day"]
    assert main(["run", str(folder / "flow.py"), *given]) == 0
    out = capsys.readouterr().out
    assert out.count("  ... 1 more\n") == 20
    assert "... 10 more epochs\n30 epochs, 330 rows in, 330 rows out, " in out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["nowhere.py"], 2, "nowhere.py: there is no such file"),
        (["helper.py", "--input", "words=words.csv"], 2, "helper.py has no flow"),
        (["flow.py"], 2, "flow.py has no inputs"),
        (["flow.py", "--input", "words"], 2, "needs a name and a path, edges=edges.parquet, not 'words'"),
        (["flow.py", "--input", "words=no.csv"], 2, "input 'words': there is no file or folder no.csv"),
        (["flow.py", "--input", "edges=words.csv"], 2, "has no input 'edges'; it has 'words'"),
        (["flow.py", "--input", "words=a.csv", "--input", "words=b.csv"], 2, "given twice for one input"),
        (["flow.py", "--input", "words=flow.py"], 2, "must be Parquet, CSV or JSON lines"),
        (["flow.py", "--input", "words=."], 2, "files of several formats"),
        (["flow.py", "--input", "words=less.csv"], 2, "has no column 'n'; it has 'word'"),
        (["flow.py", "--input", "words=some"], 2, "has no column 'n'; it has 'word'"),
        (["flow.py", "--input", "words=words.csv", "--epoch", "hour"], 2, "has no column 'hour'"),
        (["flow.py", "--input", "words=words.csv", "--epoch", "edges=day"], 2, "has no input 'edges'"),
        (["flow.py", "--input", "words=words.csv", "--epoch", "word"], 2, "must be an integer, got string"),
        (["flow.py", "--input", "words=bad.csv"], 2, "in column 'n': Row #2: CSV conversion error to int64"),
        (["flow.py", "--input", "words=bad.json"], 2, "Column(/n) changed from number to string"),
        (["flow.py", "--input", "words=bad.parquet"], 1, "column 'n' must be int64, got string"),
        (["flow.py", "--input", "words=changes.csv"], 1, "column 'diff', which the schema does not declare"),
        (["flow.py", "--input", "words=changes.json"], 1, "looks like the change of each row"),
        (["flow.py", "--input", "words=changed"], 1, "deletions would be read as insertions"),
        (["flow.py", "--input", "words=broken.parquet"], 2, "broken.parquet cannot be read"),
        (["flow.py", "--input", "words=words.csv", "--output", "some"], 2, "folder some is not empty"),
        (["flow.py", "--input", "words=words.csv", "--output", "flow.py"], 2, "needs a folder"),
        (["flow.py", "--input", "words=words.csv", "--workers", "0"], 2, "at least 1, not '0'"),
        (["flow.py", "--master", "local[2]"], 2, "give --input words=PATH"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_a_mistake_gets_one_line_that_names_it(
    options: list[str],
    code: int,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "less.csv").write_text("word\na\n")
    (folder / "bad.csv").write_text("word,n\na,x\n")
    (folder / "bad.json").write_text('{"word": "a", "n": "x"}\n')
    (folder / "broken.parquet").write_text("PAR1")
    (folder / "changes.csv").write_text("word,n,diff\na,1,-1\n")
    (folder / "changes.json").write_text('{"word": "a", "n": 1, "op": "d"}\n')
    (folder / "changed").mkdir()
    pq.write_table(TABLE, folder / "changed" / "a.parquet")
    pq.write_table(TABLE.append_column("_change_type", [["insert"] * 3]), folder / "changed" / "b.parquet")
    pq.write_table(pa.table({"word": ["a"], "n": ["x"]}), folder / "bad.parquet")
    (folder / "some").mkdir()
    pq.write_table(TABLE, folder / "some" / "a.parquet")
    pq.write_table(pa.table({"word": ["a"]}), folder / "some" / "b.parquet")
    assert main(["run", *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pointstamp: ")
    assert err.count("\n") == 1
    assert said in err


def test_an_exception_of_the_flow_names_operator_and_line_and_ends_with_code_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "helper.py").write_text("def doubled(row):\n    return 1 / 0\n")
    sys.modules.pop("helper", None)
    assert main(["run", str(folder / "flow.py"), "--input", f"words={folder / 'words.csv'}"]) == 1
    err = capsys.readouterr().err
    assert "operator 'map' failed" in err
    assert "helper.py:2" in err


@pytest.fixture(autouse=True)
def _forget_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's file brings its folder into the path, and each test has a folder of its own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "helper", raising=False)


# On a terminal.


def test_on_a_terminal_the_result_goes_to_standard_output_and_the_display_to_the_other(folder: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    command = [*COMMAND, "flow.py", "--input", "words=words.csv", "--epoch", "day"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=folder
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    assert out.startswith("epoch 0, totals: 1 row\n")
    assert "totals" in shown.decode()
    assert "epoch 0, totals: 1 row" not in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the other side of a terminal has closed
        return b""


# On Spark.


@pytest.mark.spark
def test_on_spark_the_output_is_that_of_the_run_without(folder: Path) -> None:
    with (folder / "flow.py").open("a") as flow:
        flow.write(COUNTED)
    command = [*COMMAND, "flow.py", "--input", "words=words.csv", "--epoch", "day", "--output", "out"]
    done = subprocess.run(
        [*command, "--master", "local[2]"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 epochs, 3 rows in, 7 rows out, ")
    assert totals_in(folder / "out") == TOTALS
    assert sorted(map(str, ds.dataset(folder / "out" / "counts.parquet").to_table().to_pylist())) == COUNTS


@pytest.mark.long
@pytest.mark.spark
def test_on_spark_a_wrong_value_gets_one_line_that_names_its_column(folder: Path) -> None:
    (folder / "bad.csv").write_text("word,n\na,x\n")
    done = subprocess.run(
        [*COMMAND, "flow.py", "--input", "words=bad.csv", "--master", "local[2]"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "pointstamp: input 'words': bad.csv has 'x' in column 'n', which must be bigint.\n"
    )
    assert "\tat " not in done.stderr  # no Java stack trace


SUBMITTED = """
import sys
from pyspark.sql import SparkSession
import pointstamp as ps

flow = ps.Dataflow("words")
flow.output("counts", flow.stream_input("words", "word string").count("word"))
spark = SparkSession.builder.getOrCreate()
frame = spark.read.parquet(sys.argv[1]).select("word")
print(sorted(map(tuple, flow.run(on=spark, words=frame)["counts"].collect())))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.long
def test_spark_submit_runs_a_script_that_runs_a_flow(folder: Path) -> None:
    (folder / "job.py").write_text(SUBMITTED)
    submit = Path(sys.executable).with_name("spark-submit")
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
    options = [part for setting in settings for part in ("--conf", setting)]
    done = subprocess.run(
        [str(submit), "--master", "local[2]", *options, "job.py", str(folder / "words.parquet")],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Spark puts a script's warnings among its lines, such as that of a slow machine: it waits for workers.
    assert done.stdout.splitlines()[-1] == "[(0, '007', 2), (0, 'b', 1)]"
