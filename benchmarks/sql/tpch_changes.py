"""Tables of TPC-H that change: each epoch orders come and go with their lines, and other rows are replaced.

What is there is kept beside the changes, and not worked out of them: every row that ever was, and whether it
is there now.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.sql.tpch_data import SCHEMAS, Tpch

WEIGHT: Final = "w"
"""The column that says whether a row comes or goes."""

_REPLACED: Final = {
    "customer": ("c_mktsegment", "c_acctbal", "c_nationkey"),
    "supplier": ("s_acctbal", "s_nationkey"),
    "part": ("p_size", "p_brand", "p_container", "p_type"),
    "partsupp": ("ps_supplycost", "ps_availqty"),
    "lineitem": ("l_quantity", "l_shipmode", "l_discount"),
}
"""Which columns get the values of another row when a row is replaced."""

Changes = dict[str, pa.Table]


class ChangingTables:
    """The tables of a scale, and epochs of their changes."""

    def __init__(self, scale: float, names: Iterable[str] = SCHEMAS, seed: int = 1) -> None:
        self._tpch = Tpch(scale, seed)
        made = self._tpch.tables()
        self._rows = {name: [made[name]] for name in SCHEMAS if name in set(names)}
        self._is_there = {name: np.ones(made[name].num_rows, np.bool_) for name in self._rows}

    @property
    def names(self) -> list[str]:
        """The tables that are kept."""
        return list(self._rows)

    def loaded(self, epochs: int) -> list[Changes]:
        """All rows of the beginning, over some epochs; small tables come at once."""
        made: list[Changes] = [{} for _ in range(epochs)]
        for name, (table,) in self._rows.items():
            parts = epochs if table.num_rows > 25 else 1
            bounds = [table.num_rows * n // parts for n in range(parts + 1)]
            for n in range(epochs):
                part = table.slice(bounds[n], bounds[n + 1] - bounds[n]) if n < parts else table.slice(0, 0)
                made[n][name] = _weighed(part, 1)
        return made

    def change(self, rows: int, *, suppliers: bool = False) -> Changes:
        """About so many changes: three quarters are orders and lines, if these are kept.

        A supplier changes if that is asked for: one has hundreds of lines, and is seldom another.
        """
        left_out = ("lineitem",) if suppliers else ("lineitem", "supplier")
        others = [name for name in self._rows if name in _REPLACED and name not in left_out]
        ordered = [name for name in ("orders", "lineitem") if name in self._rows]
        share = rows * 3 // 4 if ordered and others else rows if ordered else 0
        made: dict[str, list[pa.Table]] = {name: [] for name in self._rows}
        if ordered:
            self._orders(made, share * 4 // 5)
        if "lineitem" in self._rows:
            self._replace(made, "lineitem", share // 10)
        for name in others:
            self._replace(made, name, (rows - share) // len(others) // 2)
        return {
            name: pa.concat_tables(parts) if parts else _weighed(self._rows[name][0].slice(0, 0), 1)
            for name, parts in made.items()
        }

    def there(self, name: str) -> pa.Table:
        """The rows of a table that are there now."""
        whole = pa.concat_tables(self._rows[name])
        is_there = self._is_there[name]
        return whole if is_there.all() else whole.filter(pa.array(is_there))

    def _orders(self, made: Mapping[str, list[pa.Table]], rows: int) -> None:
        """Half of the rows are orders that go with their lines, half are new ones."""
        has = {"orders": 1, "lineitem": 4}
        count = max(rows // 2 // sum(size for name, size in has.items() if name in self._rows), 1)
        keyed = "orders" if "orders" in self._rows else "lineitem"
        keys = self._column(keyed, f"{keyed[0]}_orderkey")
        alive = np.flatnonzero(self._is_there[keyed])
        gone = np.unique(keys[self._tpch.random.choice(alive, count, replace=False)])
        for name, table in zip(("orders", "lineitem"), self._tpch.new_orders(count), strict=True):
            if name in self._rows:
                is_gone = np.isin(self._column(name, f"{name[0]}_orderkey"), gone) & self._is_there[name]
                made[name].append(self._deleted(name, np.flatnonzero(is_gone)))
                made[name].append(self._inserted(name, table))

    def _replace(self, made: Mapping[str, list[pa.Table]], name: str, count: int) -> None:
        """Some rows get values of others."""
        alive = np.flatnonzero(self._is_there[name])
        at = np.unique(self._tpch.random.choice(alive, min(count, len(alive)), replace=False))
        gone = self._deleted(name, at)
        rows = gone.drop_columns([WEIGHT])
        for column in _REPLACED[name]:
            place = rows.schema.get_field_index(column)
            values = rows.column(place).take(pa.array(self._tpch.random.permutation(rows.num_rows)))
            rows = rows.set_column(place, rows.schema.field(place), values)
        made[name].extend([gone, self._inserted(name, rows)])

    def _deleted(self, name: str, at: npt.NDArray[np.int64]) -> pa.Table:
        self._is_there[name][at] = False
        return _weighed(self._whole(name).take(pa.array(at)), -1)

    def _inserted(self, name: str, table: pa.Table) -> pa.Table:
        self._rows[name].append(table)
        self._is_there[name] = np.append(self._is_there[name], np.ones(table.num_rows, np.bool_))
        return _weighed(table, 1)

    def _whole(self, name: str) -> pa.Table:
        return pa.concat_tables(self._rows[name])

    def _column(self, name: str, column: str) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self._whole(name).column(column).to_numpy()
        return found


def tables_in(query: str) -> list[str]:
    """The tables of which a query speaks."""
    return [name for name in SCHEMAS if re.search(rf"\b{name}\b", query)]


def declared(names: Iterable[str], *, trusted: bool = False) -> str:
    """The statements that declare tables with weights, and whether their deletions are checked."""
    options = f"'weight' = '{WEIGHT}'" + (", 'trusted' = 'true'" if trusted else "")
    return "".join(
        f"create table {name} ({SCHEMAS[name]}, {WEIGHT} long) tblproperties ({options});\n" for name in names
    )


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight)))
