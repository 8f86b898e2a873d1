"""The guide and the other pages are true, as far as a program can tell.

Families, and what only each can find:
- the guide's Python blocks, run in order in one namespace as a reader would type them: each prints what the
  text block after it says. Those that need a Spark session say so in their first line, and run in a test of
  their own, among the others;
- the tutorial's blocks in the same way; its commands, which record a run; and each event that it speaks of,
  which is an event of that run under that number;
- the names in docs/architecture.md: each file is there, and has what is said to be in it;
- the tests that docs/guarantees.md names: each is there, so that no promise stands without one;
- on every page: each command of ours with its options, each target of make, and each name after ``ps.``.
"""

import ast
import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pointstamp as ps
from pointstamp.cli.main import main
from pointstamp.judge.trace import describe_event, load

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guide.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?", re.DOTALL)
NEEDS_SPARK = "# with a SparkSession named spark"


def blocks(page: Path, *, with_spark: bool) -> Iterator[re.Match[str]]:
    for block in BLOCK.finditer(page.read_text()):
        if with_spark or not block["code"].startswith(NEEDS_SPARK):
            yield block


def run(names: dict[str, object], *, with_spark: bool, page: Path = GUIDE) -> int:
    count = 0
    for block in blocks(page, with_spark=with_spark):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block["code"], str(page), "exec"), names)  # noqa: S102 - our own page
        assert printed.getvalue().strip() == (block["printed"] or "").strip(), block["code"]
        count += 1
    return count


def test_every_python_block_of_the_guide_prints_what_it_says() -> None:
    assert run({}, with_spark=False) >= 12


def test_every_python_block_of_the_tutorial_prints_what_it_says() -> None:
    names: dict[str, object] = {}
    assert run(names, with_spark=False, page=TUTORIAL) == 2
    assert isinstance(names["broken"], ps.Dataflow)


def test_the_tutorial_speaks_of_events_of_the_run_that_its_commands_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = TUTORIAL.read_text()
    (record,) = re.findall(r"^pointstamp (simulate .*)$", page, re.MULTILINE)
    assert re.findall(r"^pointstamp (dashboard .*)$", page, re.MULTILINE) == ["dashboard counting.jsonl"]
    flow = str(ROOT / "examples" / "14_counting.py")
    monkeypatch.chdir(tmp_path)
    assert main([flow if each.startswith("examples/") else each for each in record.split()]) == 0
    trace = load(tmp_path / "counting.jsonl")
    told = re.findall(r"^ +(\d+)  (worker .*)$", page, re.MULTILINE)
    assert len(told) >= 15
    for number, words in told:
        assert describe_event(trace.header.shape, trace.events[int(number)]) == words
    assert capsys.readouterr().out.startswith("valid: seed 1 on 2 workers")
    source = Path(flow).read_text()
    for line in ("context.notify_at()", "counts = self.counts.pop(context.time)"):
        assert line in source
        assert line in page


def test_the_table_of_costs_has_every_operation_on_tables() -> None:
    """And those of streams that keep something, each with what it keeps."""
    guide = GUIDE.read_text()
    costs = guide[guide.index("| operation | what it does | what it keeps") :].partition("\n\n")[0]
    # A way into loops, a question, and what a stream's own verbs call.
    others = {"enter", "only_appends", "closed_sessions", "schema", "loops"}
    verbs = {name for name in dir(ps.Table) if not name.startswith("_")} - others
    verbs |= {"running", "states", "debezium", "event_time", "delay_until", "rolling", "lookup"}
    assert [name for name in sorted(verbs) if not re.search(rf"\b{name}\b", costs)] == []


@pytest.mark.spark
def test_the_spark_blocks_of_the_guide_print_what_they_say() -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    assert run({"spark": spark}, with_spark=True) >= 13


def names_in(path: Path) -> set[str]:
    """The functions and classes of a file, and the methods of its classes as Class.method."""
    tree = ast.parse(path.read_text())
    named = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    methods = [
        f"{node.name}.{each.name}"
        for node in named
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    ]
    return {*(node.name for node in named), *methods}


def test_every_name_on_the_page_on_architecture_is_where_it_says() -> None:
    places = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", ARCHITECTURE.read_text())
    assert len(places) >= 40
    for file, name in places:
        path = ROOT / "src" / "pointstamp" / file
        assert path.is_file(), file
        assert not name or name in names_in(path), f"{file}::{name}"


def test_every_test_that_stands_for_a_promise_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", GUARANTEES.read_text())
    assert len(named) >= 15
    for name in named:
        assert (ROOT / name).is_file(), name
    promises = re.findall(r"^(\d+)\. \*\*", GUARANTEES.read_text(), re.MULTILINE)
    table = GUARANTEES.read_text().split("## How each is tested")[1]
    tested = {
        number for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for number in row.split(", ")
    }
    assert tested == set(promises)


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*command.split(), "--help"]) == 0, command
    return capsys.readouterr().out


def test_every_command_on_a_page_exists_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    known = set(re.findall(r"^    (\w+)", help_of("", capsys), re.MULTILINE))
    written = [
        (page.name, *found)
        for page in PAGES
        for found in re.findall(
            r"(?:^|[`/])pointstamp ([a-z]+(?: models)?)([^`#\n]*)", page.read_text(), re.MULTILINE
        )
    ]
    assert len(written) > 20
    for page, command, rest in written:
        assert command.split()[0] in known, f"{page}: pointstamp {command}"
        options = set(re.findall(r"--[a-z-]+", rest))
        assert options <= set(re.findall(r"--[a-z-]+", help_of(command, capsys))), f"{page}: {command}{rest}"


def test_every_target_of_make_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)`", page.read_text())) <= targets, page.name


def test_every_public_name_on_a_page_exists() -> None:
    for page in PAGES:
        for dotted in set(re.findall(r"\bps\.(\w+(?:\.\w+)?)", page.read_text())):
            first, _, second = dotted.partition(".")
            assert hasattr(ps, first), f"{page.name}: ps.{first}"
            if first == "saved" and second:
                assert hasattr(ps.saved, second), f"{page.name}: ps.{dotted}"
