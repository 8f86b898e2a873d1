"""The README and the tour are true.

Families, and what only each can find:
- its Python blocks, run in order in one namespace: each prints what the text block after it says. Those that
  need a Spark session run with the others before them, in a test of their own;
- its commands, targets of make and links: that they are there, and that the commands end well.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pointstamp.cli.main import main
from pointstamp.query.query import Query

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TOUR = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?", re.DOTALL)


COMMAND = re.compile(r"^pointstamp (?P<arguments>[^#\n]*)", re.MULTILINE)

FLOW = """
import pointstamp as ps

flow = ps.Dataflow("numbers")
flow.output("arrived", flow.input("numbers", "start long, x long, rounds long"))
"""


def run_blocks(names: dict[str, object], *, last_on_spark: int = 0, page: Path = README) -> None:
    """Run the blocks in order; those that need Spark only up to a number of them, and then no further."""
    blocks = list(BLOCK.finditer(page.read_text()))
    assert len(blocks) >= 2
    on_spark = 0
    for block in blocks:
        needs_spark = "SparkSession" in block["code"]
        if needs_spark and not last_on_spark:
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block["code"], str(page), "exec"), names)  # noqa: S102 - our own README
        if block["printed"] is not None:
            assert printed.getvalue().strip() == block["printed"].strip()
        on_spark += needs_spark
        if last_on_spark and on_spark == last_on_spark:
            return


@pytest.mark.parametrize("page", [README, TOUR], ids=lambda page: page.name)
def test_every_python_block_prints_what_it_says(page: Path) -> None:
    run_blocks({}, page=page)


def test_the_readme_has_at_most_900_words() -> None:
    assert len(re.sub(r"```.*?```", "", README.read_text(), flags=re.DOTALL).split()) <= 900


@pytest.mark.spark
@pytest.mark.parametrize(("page", "count"), [(README, 1), (TOUR, 2)], ids=["readme", "tour"])
def test_the_spark_blocks_print_what_they_say(page: Path, count: int, tmp_path: Path) -> None:
    # Relative paths are those of the folder in which Spark's JVM was started.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(Path(__file__)), str(page), str(count)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=300)


def _on_spark(page: Path, count: int) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    names: dict[str, object] = {"spark": spark}
    try:
        run_blocks(names, last_on_spark=count, page=page)
    finally:
        query = names.get("query")
        if isinstance(query, Query):
            query.stop(finish=False)
        spark.stop()


def test_every_command_of_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"start": [6], "x": [6], "rounds": [0]}), tmp_path / "in" / "monday.parquet")
    commands = [found["arguments"].split() for found in COMMAND.finditer(TOUR.read_text())]
    assert [command[0] for command in commands] == ["run", "snapshots"]
    for command in commands:
        # A stream has no end by itself; what is there has.
        assert main([*command, *(["--available-now"] if "--stream" in command else [])]) == 0


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", README.read_text()))
    assert {"run", "test"} <= named <= targets


def test_every_link_of_the_documents_leads_somewhere() -> None:
    followed = 0
    for document in (README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"
                followed += 1
    assert followed


if __name__ == "__main__":
    _on_spark(Path(sys.argv[1]), int(sys.argv[2]))
