"""TPC-DS as its own generator makes it: tables and the 99 queries, in an environment of its own.

The generator is an extension of DuckDB for an older version than ours; nothing of it is kept here but the
locked requirements. Its texts are DuckDB's, and sqlglot writes them in Spark's dialect.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".venv-tpcds"
LOCKED: Final = ROOT / "requirements" / "tpcds.txt"
SECONDS_MAX: Final = 900

SCRIPT: Final = """
import json, sys
import duckdb
from duckdb_extensions import import_extension
folder, scale = sys.argv[1:]
import_extension("tpcds")
engine = duckdb.connect(config={"threads": 1})
engine.execute("load tpcds")
engine.execute(f"call dsdgen(sf={scale})")
for (name,) in engine.execute("show tables").fetchall():
    engine.execute(f"copy {name} to '{folder}/{name}.parquet' (format parquet)")
queries = dict(engine.execute("select query_nr, query from tpcds_queries()").fetchall())
with open(f"{folder}/queries.json", "w") as file:
    json.dump(queries, file)
"""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The tables, and the queries by their number in DuckDB's dialect."""

    tables: Mapping[str, pa.Table]
    queries: Mapping[int, str]

    def in_spark(self, number: int) -> str:
        """A query in Spark's dialect."""
        return sqlglot.transpile(self.queries[number], read="duckdb", write="spark")[0]

    def read_by(self, number: int) -> list[str]:
        """The tables that a query reads."""
        parsed = sqlglot.parse_one(self.queries[number], read="duckdb")
        named = {each.name for each in parsed.find_all(exp.Table)}
        return [name for name in self.tables if name in named]


@cache
def benchmark(scale: float) -> Benchmark:
    """The benchmark at a scale, generated."""
    with TemporaryDirectory(prefix="pointstamp-tpcds-") as folder:
        command = [str(_python()), "-c", SCRIPT, folder, str(scale)]
        done = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, text=True, timeout=SECONDS_MAX
        )
        assert done.returncode == 0, done.stderr[-3000:]
        tables = {
            path.stem: pq.read_table(path, memory_map=False)
            for path in sorted(Path(folder).glob("*.parquet"))
        }
        queries = json.loads((Path(folder) / "queries.json").read_text())
    return Benchmark(tables, {int(number): text for number, text in queries.items()})


def _python() -> Path:
    """The interpreter of the environment; one that was not made to its end is made again."""
    python, made = HOME / "bin" / "python", HOME / "made"
    if not made.exists() or made.read_text() != LOCKED.read_text():
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "venv", "--clear", str(HOME)], check=True, timeout=SECONDS_MAX
        )
        wanted = ["install", "--quiet", "--require-hashes", "-r", str(LOCKED)]
        subprocess.run(  # noqa: S603
            [str(python), "-m", "pip", *wanted], check=True, timeout=SECONDS_MAX
        )
        made.write_text(LOCKED.read_text())
    return python
