"""The README and every page below docs/ are true, as far as a program can tell.

Families, and what only each can find:
- blocks of Python: each page is run from top to bottom as a reader would type it, and prints what it shows;
  fragments have the right syntax; blocks that need Spark are run in one session;
- names: commands with their options, targets of make, links with their anchors, and names after ``ps.``;
- form: the length of pages and sections, a first paragraph before the first section, and that the site has
  each page;
- the tutorial on completion, which speaks of events of a recorded run; the files on the page on
  architecture; the
  tests that the guarantees name; the operations in the table of costs.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.cli.main import main
from pointstamp.graphs import GraphFrame, Pregel
from pointstamp.verify.trace import describe_event, load
from support import pages
from support.pages import DOCS, PAGES, ROOT, name_of

DOCUMENTS: Final = (*PAGES, ROOT / "CONTRIBUTING.md")
COMPLETION: Final = DOCS / "tutorials" / "completion.md"
ARCHITECTURE: Final = (
    DOCS / "explanation" / "architecture.md",
    DOCS / "explanation" / "walk.md",
    DOCS / "explanation" / "progress.md",
)
GUARANTEES: Final = DOCS / "explanation" / "guarantees.md"
TABLES: Final = DOCS / "reference" / "tables.md"
TOUR: Final = DOCS / "tutorials" / "tour.md"
WORDS_MAX: Final = 2_500
README_WORDS_MAX: Final = 650
GENERATED: Final = {
    "docs/reference/spark_functions.md",
    "docs/reference/sql/rejected.md",
    "docs/reference/sql/tested.md",
    "docs/explanation/paper_to_code.md",
    "docs/reference/glossary.md",
    "docs/benchmarks/views.md",
}
"""Pages that are generated, or consist of one table that a test keeps complete."""

FLOW: Final = """
import pointstamp as ps

flow = ps.Dataflow("numbers")
flow.output("arrived", flow.stream_input("numbers", "start long, x long, rounds long"))
"""


def words(text: str) -> int:
    return len(re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE).split())


# Blocks.


@pytest.mark.parametrize("page", [page for page in PAGES if pages.blocks(page)], ids=name_of)
def test_every_block_of_a_page_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # where a block is that is a module
    pages.run(page, {})


@pytest.mark.spark
def test_every_block_that_needs_spark_prints_what_it_shows(tmp_path: Path) -> None:
    assert len(pages.spark_pages()) >= 4
    # Relative paths are those of the folder in which Spark's JVM was started.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, pages.__file__]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_the_pytest_file_of_a_page_passes_and_finds_a_mistake(tmp_path: Path) -> None:
    page = DOCS / "howto" / "test_in_ci.md"
    files = {block.file: block.code for block in pages.blocks(page) if block.file is not None}
    assert set(files) == {"totals.py", "test_totals.py", "test_totals_on_spark.py"}
    files.pop("test_totals_on_spark.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    mistaken = files | {"totals.py": files["totals.py"].replace("ps.sum", "ps.max")}
    for number, (written, passes) in enumerate(((files, True), (mistaken, False))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, code in written.items():
            (folder / name).write_text(code)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode == 0) == passes, done.stdout + done.stderr


@pytest.mark.spark
def test_the_pytest_file_of_a_page_passes_on_spark(tmp_path: Path) -> None:
    for block in pages.blocks(DOCS / "howto" / "test_in_ci.md"):
        if block.file in ("totals.py", "test_totals_on_spark.py"):
            (tmp_path / block.file).write_text(block.code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_fragment_is_python() -> None:
    for page in PAGES:
        for code in pages.fragments(page):
            try:
                pages.parse(code)
            except SyntaxError as error:
                raise AssertionError(f"{name_of(page)}: {error} in\n{code}") from error


# Names.


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*command.split(), "--help"]) == 0, command
    return capsys.readouterr().out


def test_every_command_on_a_page_exists_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    known = set(re.findall(r"^    (\w+)", help_of("", capsys), re.MULTILINE))
    written = [
        (name_of(page), *found)
        for page in DOCUMENTS
        for found in re.findall(
            r"(?:^|[`/])pointstamp ([a-z]+(?: models)?)([^`#\n]*)", page.read_text(), re.MULTILINE
        )
    ]
    assert len(written) > 20
    for page, command, rest in written:
        assert command.split()[0] in known, f"{page}: pointstamp {command}"
        options = set(re.findall(r"--[a-z-]+", rest))
        assert options <= set(re.findall(r"--[a-z-]+", help_of(command, capsys))), f"{page}: {command}{rest}"


def test_every_command_of_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"start": [6], "x": [6], "rounds": [0]}), tmp_path / "in" / "monday.parquet")
    commands = [
        found.split() for found in re.findall(r"^pointstamp ([^#\n]*)", TOUR.read_text(), re.MULTILINE)
    ]
    assert [command[0] for command in commands] == ["run", "snapshots"]
    for command in commands:
        # A stream has no end by itself; what is there has.
        assert main([*command, *(["--available-now"] if "--stream" in command else [])]) == 0


def test_every_target_of_make_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in DOCUMENTS:
        assert set(re.findall(r"`make ([a-z-]+)`", page.read_text())) <= targets, name_of(page)
    assert {"run", "test"} <= set(re.findall(r"make ([a-z-]+)", PAGES[0].read_text())) <= targets


def test_every_public_name_on_a_page_exists() -> None:
    for page in DOCUMENTS:
        if name_of(page) in GENERATED:
            continue
        for name in pages.public_names(page.read_text()):
            value: Any = ps
            for part in name[:1] if not isinstance(getattr(ps, name[0], None), type(ps)) else name:
                assert hasattr(value, part), f"{name_of(page)}: ps.{'.'.join(name)}"
                value = getattr(value, part)


def slug(heading: str) -> str:
    text = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", text)).strip("-")


def headings(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_every_script_and_test_on_a_page_exists() -> None:
    found = {
        path
        for page in DOCUMENTS
        for path in re.findall(
            r"`((?:benchmarks|tests|examples|scripts)/[\w/]+\.(?:py|ipynb|json))`", page.read_text()
        )
    }
    assert len(found) > 60
    assert [path for path in sorted(found) if not (ROOT / path).exists()] == []


def test_every_link_of_the_documents_leads_somewhere() -> None:
    followed = 0
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if link.startswith(("http", "mailto:")):
                continue
            address, _, anchor = link.partition("#")
            path = (document.parent / address).resolve() if address else document
            assert path.exists(), f"{name_of(document)}: {link}"
            if anchor and path.suffix == ".md":
                assert anchor in map(slug, headings(path)), f"{name_of(document)}: {link}"
            followed += 1
    assert followed > 100


# Form.


def test_no_page_is_too_long() -> None:
    long = {
        name_of(page): words(page.read_text())
        for page in PAGES
        if words(page.read_text()) > WORDS_MAX and name_of(page) not in GENERATED
    }
    assert long == {}
    assert words(PAGES[0].read_text()) <= README_WORDS_MAX


def test_every_page_has_one_title_and_a_paragraph_before_its_first_section() -> None:
    for page in PAGES[1:]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        lines = text.split("\n")
        titles = [line for line in lines if line.startswith("# ")]
        assert len(titles) == 1, f"{name_of(page)}: {titles}"
        assert lines[0].startswith("# "), name_of(page)
        assert re.match(r"[^#\n`|]", "\n".join(lines[1:]).strip()), name_of(page)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = set(re.findall(r"[\w/]+\.md", text))
    assert {page.relative_to(DOCS).as_posix() for page in PAGES[1:]} <= named


# Single pages.


def test_the_tutorial_speaks_of_events_of_the_run_that_its_commands_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = COMPLETION.read_text()
    (record,) = re.findall(r"^pointstamp (simulate .*)$", page, re.MULTILINE)
    assert re.findall(r"^pointstamp (dashboard .*)$", page, re.MULTILINE) == ["dashboard counting.jsonl"]
    flow = str(ROOT / "examples" / "14_counting.py")
    monkeypatch.chdir(tmp_path)
    assert main([flow if each.startswith("examples/") else each for each in record.split()]) == 0
    trace = load(tmp_path / "counting.jsonl")
    told = re.findall(r"^ +(\d+)  (worker .*)$", page, re.MULTILINE)
    assert len(told) >= 15
    for number, text in told:
        assert describe_event(trace.header.shape, trace.events[int(number)]) == text
    assert capsys.readouterr().out.startswith("valid: seed 1 on 2 workers")
    source = Path(flow).read_text()
    for line in ("context.notify_at()", "counts = self.counts.pop(context.time)"):
        assert line in source
        assert line in page


def test_the_table_of_costs_has_every_operation_on_tables() -> None:
    """And those of streams that have state, each with it."""
    page = TABLES.read_text()
    costs = page.partition("## Operations on tables\n")[2].partition("\n## ")[0]
    # A way into loops, a question, and what a stream's own verbs call.
    others = {"enter", "is_append_only", "schema", "loops", "named", "agg", "closed_sessions"}
    verbs = {name for name in dir(ps.Table) if not name.startswith("_")} - others
    verbs |= {"to_table", "snapshots", "debezium", "with_watermark", "emit_on_close", "over", "lookup"}
    assert [name for name in sorted(verbs) if not re.search(rf"\b{name}\b", costs)] == []


def literals() -> Iterator[str]:
    """The string literals of the source, with @ for each value in them."""
    for path in (ROOT / "src" / "pointstamp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [each.value if isinstance(each, ast.Constant) else "@" for each in node.values]
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_error_message_of_the_page_is_in_the_code() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(messages) >= 25

    def with_gaps(text: str) -> str:
        return re.sub(
            r"[@\s]+",
            " ",
            re.sub(r"(?<!\w)'[^']*'|(\bworker )?\d+(\.\d+)?|%[ds]|\b(parquet|int64|string)\b", "@", text),
        )

    code = "\n".join(map(with_gaps, literals()))
    missing = [message for message in messages if with_gaps(message).strip() not in code]
    assert missing == []


def test_the_environment_variables_of_the_page_are_those_of_the_code() -> None:
    page = (DOCS / "reference" / "configuration.md").read_text()
    listed = set(re.findall(r"^\| `(POINTSTAMP_\w+)`", page, re.MULTILINE))
    assert listed == {each for text in literals() for each in re.findall(r"POINTSTAMP_[A-Z_]+", text)}


def test_the_tables_of_graphframes_methods_are_true() -> None:
    page = (DOCS / "migrate" / "graphframes.md").read_text()
    for heading, kind in (("Methods of GraphFrame", GraphFrame), ("Methods of Pregel", Pregel)):
        table = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \| (yes|partly|no) \|", table, re.MULTILINE)
        named = {name: here for names, here in rows for name in re.findall(r"`(\w+)`", names)}
        public = {name for name in dir(kind) if not name.startswith("_")}
        assert {name for name, here in named.items() if here != "no"} == public


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


def test_every_name_on_the_pages_on_architecture_is_where_it_says() -> None:
    text = "\n".join(page.read_text() for page in ARCHITECTURE)
    places = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", text)
    assert len(places) >= 40
    for file, name in places:
        path = ROOT / "src" / "pointstamp" / file
        assert path.is_file(), file
        assert not name or name in names_in(path), f"{file}::{name}"


def test_every_test_that_stands_for_a_promise_is_there() -> None:
    text = GUARANTEES.read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(named) >= 15
    for name in named:
        assert (ROOT / name).is_file(), name
    promises = re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)
    table = text.split("## Tests of the guarantees")[1]
    tested = {
        number for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for number in row.split(", ")
    }
    assert tested == set(promises)
