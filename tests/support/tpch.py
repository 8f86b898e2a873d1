"""The eight tables of TPC-H in small, drawn again so that every query of the benchmark finds some rows.

The columns are those that the queries read. Values are drawn from narrow ranges, and keys need not exist on
the other side: what a foreign key promises is nothing that a table may count on while rows come and go.
"""

from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrow.schema import as_schema

_MONEY: Final = "decimal(12, 2)"

SCHEMAS: Final = {
    "region": "r_regionkey long, r_name string",
    "nation": "n_nationkey long, n_name string, n_regionkey long",
    "supplier": (
        f"s_suppkey long, s_name string, s_nationkey long, s_acctbal {_MONEY}, s_phone string, "
        "s_comment string"
    ),
    "customer": (
        f"c_custkey long, c_name string, c_nationkey long, c_acctbal {_MONEY}, c_mktsegment string, "
        "c_phone string"
    ),
    "part": (
        "p_partkey long, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string"
    ),
    "partsupp": f"ps_partkey long, ps_suppkey long, ps_availqty long, ps_supplycost {_MONEY}",
    "orders": (
        f"o_orderkey long, o_custkey long, o_orderstatus string, o_totalprice {_MONEY}, o_orderdate date, "
        "o_orderpriority string, o_comment string"
    ),
    "lineitem": (
        "l_orderkey long, l_partkey long, l_suppkey long, l_quantity long, "
        f"l_extendedprice {_MONEY}, l_discount decimal(4, 2), l_tax decimal(4, 2), l_returnflag string, "
        "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipmode string, "
        "l_shipinstruct string"
    ),
}

CHANGED: Final = {
    "region": "r_name",
    "nation": "n_regionkey",
    "supplier": "s_acctbal",
    "customer": "c_mktsegment",
    "part": "p_size",
    "partsupp": "ps_supplycost",
    "orders": "o_orderdate",
    "lineitem": "l_quantity",
}
"""The column that differs when a row is replaced."""

_NATIONS: Final = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "JAPAN"]
_REGIONS: Final = ["EUROPE", "AMERICA", "ASIA"]


def epochs(seed: int, count: int, size: int) -> dict[str, list[pa.Table]]:
    """New rows of each table for each epoch; ``size`` is how many orders an epoch has."""
    draw = _Drawing(Random(seed), size)
    made: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    for epoch in range(count):
        for name, rows in draw.epoch(epoch).items():
            schema = as_schema(SCHEMAS[name])
            columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
            arrays = [pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)]
            made[name].append(pa.table(arrays, schema=schema))
    return made


class _Drawing:
    """Draws rows; keys resume from epoch to epoch."""

    def __init__(self, random: Random, size: int) -> None:
        self._random = random
        self._size = size

    def epoch(self, epoch: int) -> dict[str, list[tuple[Any, ...]]]:
        """The new rows of one epoch."""
        first, one, integer = epoch * self._size, self._random.choice, self._random.randint
        some, tenth = range(self._size), range(max(2, self._size // 5))
        base = epoch * len(tenth)
        orders = [self._order(first + n, epoch) for n in some]
        return {
            "region": [(n, name) for n, name in enumerate(_REGIONS)] if not epoch else [],
            "nation": [(n, name, n % 3) for n, name in enumerate(_NATIONS)] if not epoch else [],
            "supplier": [
                (base + n, f"Supplier#{base + n}", self._nation(), self._money(-500, 5000), self._phone(),
                 one(["quick", "Customer bad Complaints", "slow"]))
                for n in tenth
            ],
            "customer": [
                (base + n, f"Customer#{base + n}", self._nation(), self._money(-500, 5000),
                 one(["BUILDING", "MACHINERY"]), self._phone())
                for n in tenth
            ],
            "part": [
                (base + n, f"{one(['forest', 'green', 'rosy'])} {one(['green', 'lace'])}",
                 f"Manufacturer#{one('12')}", f"Brand#{one('12')}{one('23')}",
                 f"{one(['PROMO', 'ECONOMY', 'MEDIUM'])} {one(['ANODIZED', 'POLISHED'])} "
                 f"{one(['STEEL', 'BRASS'])}",
                 integer(1, 16), f"{one(['SM', 'MED', 'LG'])} {one(['BOX', 'BAG', 'CASE'])}")
                for n in tenth
            ],
            "partsupp": [
                (self._some_key(epoch), self._some_key(epoch), integer(1, 60), self._money(1, 100))
                for _ in range(2 * len(tenth))
            ],
            "orders": orders,
            "lineitem": [self._line(order, epoch) for order in orders for _ in range(integer(1, 4))],
        }  # fmt: skip

    def _order(self, key: int, epoch: int) -> tuple[Any, ...]:
        one = self._random.choice
        return (
            key,
            self._some_key(epoch),
            one("FOP"),
            self._money(100, 9000),
            self._day(),
            one(["1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW"]),
            one(["fluffy", "special packages requests", "pending"]),
        )

    def _line(self, order: tuple[Any, ...], epoch: int) -> tuple[Any, ...]:
        one, integer = self._random.choice, self._random.randint
        shipped = order[4] + timedelta(days=integer(1, 120))
        return (
            order[0],
            self._some_key(epoch),
            self._some_key(epoch),
            integer(1, 50),
            self._money(100, 5000),
            Decimal(integer(0, 10)) / 100,
            Decimal(integer(0, 8)) / 100,
            one("RAN"),
            one("OF"),
            shipped,
            shipped + timedelta(days=integer(-30, 30)),
            shipped + timedelta(days=integer(1, 30)),
            one(["AIR", "AIR REG", "MAIL", "SHIP", "TRUCK"]),
            one(["DELIVER IN PERSON", "NONE"]),
        )

    def _some_key(self, epoch: int) -> int:
        """A part, supplier or customer of one of the epochs up to this one, or nobody."""
        return self._random.randrange((epoch + 1) * max(2, self._size // 5) + 1)

    def _nation(self) -> int:
        return self._random.randrange(len(_NATIONS))

    def _money(self, least: int, most: int) -> Decimal:
        return Decimal(self._random.randint(least * 100, most * 100)) / 100

    def _phone(self) -> str:
        return f"{self._random.choice([13, 17, 23, 31])}-{self._random.randint(100, 999)}"

    def _day(self) -> date:
        return date(1993, 1, 1) + timedelta(days=self._random.randrange(4 * 365))
