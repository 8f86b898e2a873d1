"""TPC-DS in epochs: loads, then deletions and updates of the rows of every table."""

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.views.tpcds_data import Benchmark

from support.batch_answers import Fed, with_deletions

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


def epochs_of(ds: Benchmark, loads: int, changes: int, seed: int) -> Fed:
    """All rows over some epochs, and more epochs; in each some rows are deleted and replaced."""
    random = np.random.default_rng(seed)
    epochs = {}
    for name, table in ds.tables.items():
        rows = table.take(pa.array(random.permutation(table.num_rows)))
        bounds = [table.num_rows * n // loads for n in range(loads + 1)]
        parts = [rows.slice(one, other - one) for one, other in pairwise(bounds)]
        epochs[name] = [*parts, *([rows.slice(0, 0)] * changes)]
    return with_deletions(epochs, seed, CHANGED)
