"""The pages of the documentation and their blocks of code.

A block is run in one namespace with the earlier blocks of its page, in a new folder, and prints what the
``text``
block after it shows. The first line of a block says what it needs:

- ``# with a SparkSession named spark``: run by one test for all pages, in one session;
- ``# with a broker at bootstrap``: run by tests/query/test_kafka.py, with all other blocks of the page. The
  topic in ``topic = "orders"`` or ``bootstrap, "orders"`` gets a unique name.

A block whose first line is a file name, ``# totals.py``, is written to that file and not run;
tests/test_pages.py runs the pytest files.

A block of the language ``py`` is a fragment. It is not run; its syntax and its names after ``ps.`` are
checked.
"""

import ast
import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
NEEDS_SPARK: Final = "# with a SparkSession named spark"
NEEDS_KAFKA: Final = "a broker at bootstrap"
_TOPIC: Final = re.compile(r'(topic = |bootstrap, )"(\w+)"')
_BLOCK: Final = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n```text\n(?P<printed>.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_FRAGMENT: Final = re.compile(r"^```py\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block of code and what it prints, if the page shows it."""

    code: str
    printed: str | None

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        found = re.match(r"# (\w+\.py)\n", self.code)
        return None if found is None else found[1]

    @property
    def needs_spark(self) -> bool:
        return self.code.startswith(NEEDS_SPARK)

    @property
    def needs_kafka(self) -> bool:
        return NEEDS_KAFKA in self.code.partition("\n")[0]


def name_of(page: Path) -> str:
    """The path of a page below the root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return [Block(found["code"], found["printed"]) for found in _BLOCK.finditer(page.read_text())]


def fragments(page: Path) -> list[str]:
    """The fragments of a page."""
    return _FRAGMENT.findall(page.read_text())


def public_names(text: str) -> Iterator[tuple[str, ...]]:
    """What a text names after ``ps.``, each as its parts."""
    for dotted in set(re.findall(r"\bps\.([a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)?)", text)):
        yield tuple(dotted.split("."))


def parse(code: str) -> ast.Module:
    """The syntax tree of a block or fragment."""
    return ast.parse(code)


def run(page: Path, names: dict[str, object], *, with_spark: bool = False) -> int:
    """Run the blocks of a page in the current folder; how many were run.

    Blocks that need a broker are run if ``names`` has its address as ``bootstrap``.
    """
    count = 0
    for block in blocks(page):
        if (block.needs_kafka and "bootstrap" not in names) or (block.needs_spark and not with_spark):
            continue
        if block.file is not None:
            Path(block.file).write_text(block.code)
            continue
        code = _TOPIC.sub(rf'\1"\2-{names.get("run", "")}"', block.code) if block.needs_kafka else block.code
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "<string>", "exec"), names)  # noqa: S102 - our own page
        wanted, shown = (block.printed or "").strip(), printed.getvalue().strip()
        assert shown == wanted, f"{name_of(page)} prints\n{shown}\nand shows\n{wanted}\nafter\n{block.code}"
        count += 1
    return count


def spark_pages() -> list[Path]:
    """The pages with blocks that need a session."""
    return [page for page in PAGES if any(block.needs_spark for block in blocks(page))]


def kafka_pages() -> list[Path]:
    """The pages with blocks that need a broker."""
    return [page for page in PAGES if any(block.needs_kafka for block in blocks(page))]


def run_on_spark(pages: list[Path], bootstrap: str | None = None) -> None:
    """Run pages in one session, each in the emptied folder in which Spark's JVM starts."""
    from pyspark.sql import SparkSession

    from pointstamp.query.query import Query

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[3]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    failed = []
    try:
        for page in pages:
            names: dict[str, object] = {"spark": spark, "run": uuid4().hex[:8]}
            if bootstrap is not None:
                names["bootstrap"] = bootstrap
            try:
                run(page, names, with_spark=True)
            except Exception as error:
                failed.append(f"{name_of(page)}: {type(error).__name__}: {error}")
            for query in [each for each in names.values() if isinstance(each, Query)]:
                query.stop(finish=False)
            for place in Path.cwd().iterdir():
                shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink()
    finally:
        spark.stop()
    if failed:
        raise AssertionError("\n".join(failed))


if __name__ == "__main__":
    import sys

    os.environ["PYSPARK_PYTHON"] = sys.executable
    chosen = [Path(each).resolve() for each in sys.argv[1:]]
    run_on_spark(chosen or spark_pages(), os.environ.get("POINTSTAMP_TEST_KAFKA"))
