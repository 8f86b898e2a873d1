"""The README is true: its Python blocks run in order, and print what the text block after each says.

Blocks that need a Spark session run with the others before them, in a test of their own.
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?", re.DOTALL)


def run_blocks(names: dict[str, object], *, until_spark: bool) -> None:
    blocks = list(BLOCK.finditer(README.read_text()))
    assert len(blocks) >= 4
    for block in blocks:
        needs_spark = "SparkSession" in block["code"]
        if needs_spark and "spark" not in names:
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block["code"], str(README), "exec"), names)  # noqa: S102 - our own README
        if block["printed"] is not None:
            assert printed.getvalue().strip() == block["printed"].strip()
        if needs_spark and until_spark:
            return


def test_every_python_block_of_the_readme_prints_what_it_says() -> None:
    run_blocks({}, until_spark=False)


@pytest.mark.spark
def test_the_spark_block_of_the_readme_prints_what_it_says() -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    run_blocks({"spark": spark}, until_spark=True)


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"make ([a-z-]+)", README.read_text()):
        assert target in targets


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in (README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"
