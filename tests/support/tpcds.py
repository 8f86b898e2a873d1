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
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

from support.batch_answers import Fed, with_deletions

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

CHANGED: Final = {
    "call_center": "cc_name",
    "catalog_page": "cp_catalog_page_id",
    "catalog_returns": "cr_return_amount",
    "catalog_sales": "cs_quantity",
    "customer": "c_current_addr_sk",
    "customer_address": "ca_state",
    "customer_demographics": "cd_education_status",
    "date_dim": "d_day_name",
    "household_demographics": "hd_buy_potential",
    "income_band": "ib_upper_bound",
    "inventory": "inv_quantity_on_hand",
    "item": "i_category",
    "promotion": "p_channel_email",
    "reason": "r_reason_desc",
    "ship_mode": "sm_type",
    "store": "s_county",
    "store_returns": "sr_return_amt",
    "store_sales": "ss_sales_price",
    "time_dim": "t_hour",
    "warehouse": "w_warehouse_name",
    "web_page": "wp_char_count",
    "web_returns": "wr_net_loss",
    "web_sales": "ws_item_sk",
    "web_site": "web_name",
}
"""For each table a column that gets the value of another row when a row is replaced."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The tables, and the queries by their number in DuckDB's dialect."""

    tables: Mapping[str, pa.Table]
    queries: Mapping[int, str]

    def in_spark(self, number: int) -> str:
        """A query in Spark's dialect."""
        return sqlglot.transpile(self.queries[number], read="duckdb", write="spark")[0]

    def epochs(self, loads: int, changes: int, seed: int) -> Fed:
        """All rows over some epochs, and more epochs; in each some rows are deleted and replaced."""
        random = np.random.default_rng(seed)
        epochs = {}
        for name, table in self.tables.items():
            rows = table.take(pa.array(random.permutation(table.num_rows)))
            bounds = [table.num_rows * n // loads for n in range(loads + 1)]
            parts = [rows.slice(one, other - one) for one, other in pairwise(bounds)]
            epochs[name] = [*parts, *([rows.slice(0, 0)] * changes)]
        return with_deletions(epochs, seed, CHANGED)


@cache
def benchmark(scale: float) -> Benchmark:
    """The benchmark at a scale, generated."""
    with TemporaryDirectory(prefix="pointstamp-tpcds-") as folder:
        command = [str(_python()), "-c", SCRIPT, folder, str(scale)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
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
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True, timeout=SECONDS_MAX)
        wanted = ["install", "--quiet", "--require-hashes", "-r", str(LOCKED)]
        subprocess.run([str(python), "-m", "pip", *wanted], check=True, timeout=SECONDS_MAX)
        made.write_text(LOCKED.read_text())
    return python
