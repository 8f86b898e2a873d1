# ruff: noqa: SIM905 - many words are read best as a text
"""The eight tables of TPC-H at any scale, the same for the same seed, without the generator of its council.

Sizes, keys, distributions and the dependencies between columns are those of the specification (section 4.2):
an order has one to seven lines, its key leaves gaps, a third of the customers never order, dates and flags of
a line follow from the date of its order, a line's price from its part, an order's price and status from its
lines. Comments and addresses are drawn from pools, and only as rich as the queries need them. So counts of
rows and selectivities are those of TPC-H, and answers are not those that its council has published.

Everything is worked out in columns: scale 1, eight million rows, takes some seconds.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.schema import as_schema

_MONEY: Final = "decimal(15, 2)"

SCHEMAS: Final = {
    "region": "r_regionkey long, r_name string, r_comment string",
    "nation": "n_nationkey long, n_name string, n_regionkey long, n_comment string",
    "supplier": (
        "s_suppkey long, s_name string, s_address string, s_nationkey long, s_phone string, "
        f"s_acctbal {_MONEY}, s_comment string"
    ),
    "customer": (
        "c_custkey long, c_name string, c_address string, c_nationkey long, c_phone string, "
        f"c_acctbal {_MONEY}, c_mktsegment string, c_comment string"
    ),
    "part": (
        "p_partkey long, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        f"p_container string, p_retailprice {_MONEY}, p_comment string"
    ),
    "partsupp": (
        f"ps_partkey long, ps_suppkey long, ps_availqty int, ps_supplycost {_MONEY}, ps_comment string"
    ),
    "orders": (
        f"o_orderkey long, o_custkey long, o_orderstatus string, o_totalprice {_MONEY}, o_orderdate date, "
        "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string"
    ),
    "lineitem": (
        f"l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, l_quantity {_MONEY}, "
        f"l_extendedprice {_MONEY}, l_discount {_MONEY}, l_tax {_MONEY}, l_returnflag string, "
        "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
        "l_shipmode string, l_comment string"
    ),
}
"""The tables and their columns, by the names of the specification."""

Integers = npt.NDArray[np.int64]

_REGIONS: Final = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS: Final = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0),
    ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2),
    ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2),
    ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
)  # fmt: skip
_COLOURS: Final = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished "
    "chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab "
    "firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki "
    "lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty "
    "moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple red "
    "rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle "
    "tomato turquoise violet wheat white yellow"
).split()
_TYPES: Final = [
    f"{one} {two} {three}"
    for one in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for two in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for three in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
]
_CONTAINERS: Final = [
    f"{one} {two}"
    for one in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for two in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
]
_SEGMENTS: Final = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
_PRIORITIES: Final = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_INSTRUCTIONS: Final = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES: Final = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_WORDS: Final = (
    "furiously sly carefully blithely quick fluffy slow quiet ruthless thin close dogged daring brave "
    "stealthy permanent enticing idle busy regular final ironic even bold silent special pending express "
    "unusual packages requests accounts deposits foxes ideas theodolites pinto instructions dependencies "
    "excuses platelets asymptotes courts dolphins multipliers sauternes warthogs frets dinos attainments"
).split()
_POOL: Final = 4_096
"""How many different comments there are."""

_FIRST_DAY: Final = (date(1992, 1, 1) - date(1970, 1, 1)).days
_LAST_DAY: Final = (date(1998, 8, 2) - date(1970, 1, 1)).days
_TODAY: Final = (date(1995, 6, 17) - date(1970, 1, 1)).days


class Tpch:
    """Draws rows of the tables at a scale; more orders can be drawn after the first ones."""

    def __init__(self, scale: float, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.suppliers = max(int(10_000 * scale), 10)
        self.customers = max(int(150_000 * scale), 15)
        self.parts = max(int(200_000 * scale), 20)
        self.orders = self.customers * 10
        self._comments = pa.array([" ".join(each) for each in self.random.choice(_WORDS, (_POOL, 5))])
        self._next_order = 0

    def tables(self) -> dict[str, pa.Table]:
        """All tables, as they are in the beginning."""
        orders, lines = self.new_orders(self.orders)
        return {
            "region": _table("region", [np.arange(5), _REGIONS, self._comment(5)]),
            "nation": self._nation(),
            "supplier": self._supplier(),
            "customer": self._customer(),
            "part": self._part(),
            "partsupp": self._partsupp(),
            "orders": orders,
            "lineitem": lines,
        }

    def new_orders(self, count: int) -> tuple[pa.Table, pa.Table]:
        """Orders with keys that were not there, and their lines."""
        number = np.arange(self._next_order, self._next_order + count)
        self._next_order += count
        keys = number // 8 * 32 + number % 8 + 1
        day = self._integers(_FIRST_DAY, _LAST_DAY, count)
        of = np.repeat(np.arange(count), self._integers(1, 7, count))
        starts = np.searchsorted(of, np.arange(count))
        part = self._integers(1, self.parts, len(of))
        quantity = self._integers(1, 50, len(of))
        price = quantity * _retail_cents(part)
        discount, tax = self._integers(0, 10, len(of)), self._integers(0, 8, len(of))
        shipped = day[of] + self._integers(1, 121, len(of))
        committed = day[of] + self._integers(30, 90, len(of))
        received = shipped + self._integers(1, 30, len(of))
        is_open = shipped > _TODAY
        flag = np.where(received <= _TODAY, self._integers(0, 1, len(of)), 2)
        lines = [
            keys[of], part, self._supplier_of(part, self._integers(0, 3, len(of))),
            np.arange(len(of)) - starts[of] + 1, quantity * 100, price, discount, tax, _one_of("RAN", flag),
            _one_of("FO", is_open.astype(np.int64)), shipped, committed, received,
            self._some(_INSTRUCTIONS, len(of)), self._some(_MODES, len(of)), self._comment(len(of)),
        ]  # fmt: skip
        whole = np.add.reduceat(price * (100 + tax) * (100 - discount) // 10_000, starts)
        still_open = np.add.reduceat(is_open.astype(np.int64), starts)
        status = np.where(still_open == 0, 0, np.where(still_open == np.bincount(of), 1, 2))
        orders = [
            keys, self._some_customer(count), _one_of("FOP", status), whole, day,
            self._some(_PRIORITIES, count), _numbered("Clerk#", self._integers(1, 1000, count)),
            np.zeros(count, np.int64), self._comment(count),
        ]  # fmt: skip
        return _table("orders", orders), _table("lineitem", lines)

    def _nation(self) -> pa.Table:
        names, regions = zip(*_NATIONS, strict=True)
        return _table("nation", [np.arange(25), names, np.array(regions), self._comment(25)])

    def _supplier(self) -> pa.Table:
        keys, nation = np.arange(1, self.suppliers + 1), self._integers(0, 24, self.suppliers)
        comments = np.array(self._comment(self.suppliers).to_pylist(), dtype=object)
        comments[:: max(self.suppliers // 20, 5)] = "even Customer ideas sleep; slow Complaints nag"
        columns = [
            keys, _numbered("Supplier#", keys), self._comment(len(keys)), nation, self._phone(nation),
            self._integers(-99_999, 999_999, len(keys)), pa.array(comments, pa.string()),
        ]  # fmt: skip
        return _table("supplier", columns)

    def _customer(self) -> pa.Table:
        keys, nation = np.arange(1, self.customers + 1), self._integers(0, 24, self.customers)
        columns = [
            keys, _numbered("Customer#", keys), self._comment(len(keys)), nation, self._phone(nation),
            self._integers(-99_999, 999_999, len(keys)), self._some(_SEGMENTS, len(keys)),
            self._comment(len(keys)),
        ]  # fmt: skip
        return _table("customer", columns)

    def _part(self) -> pa.Table:
        keys = np.arange(1, self.parts + 1)
        maker, brand = self._integers(1, 5, self.parts), self._integers(1, 5, self.parts)
        words: list[pa.Array] = [self._some(_COLOURS, self.parts) for _ in range(5)]
        columns = [
            keys, pc.binary_join_element_wise(*words, " "), _numbered("Manufacturer#", maker),
            _numbered("Brand#", maker * 10 + brand), self._some(_TYPES, self.parts),
            self._integers(1, 50, self.parts), self._some(_CONTAINERS, self.parts), _retail_cents(keys),
            self._comment(self.parts),
        ]  # fmt: skip
        return _table("part", columns)

    def _partsupp(self) -> pa.Table:
        part, which = np.repeat(np.arange(1, self.parts + 1), 4), np.tile(np.arange(4), self.parts)
        columns = [
            part, self._supplier_of(part, which), self._integers(1, 9_999, len(part)),
            self._integers(100, 100_000, len(part)), self._comment(len(part)),
        ]  # fmt: skip
        return _table("partsupp", columns)

    def _supplier_of(self, part: Integers, which: Integers) -> Integers:
        """One of the four suppliers that a part has (4.2.3)."""
        count = self.suppliers
        return (part + which * (count // 4 + (part - 1) // count)) % count + 1

    def _some_customer(self, count: int) -> Integers:
        """Customers of whom each third one orders nothing."""
        drawn = self._integers(1, self.customers, count)
        return np.where(drawn % 3 == 0, np.maximum(drawn - 1, 1), drawn)

    def _phone(self, nation: Integers) -> pa.Array:
        rest = self._integers(1_000_000, 9_999_999, len(nation))
        return pc.binary_join_element_wise(
            pa.array(nation + 10).cast("string"), pa.array(rest).cast("string"), "-"
        )

    def _comment(self, count: int) -> pa.Array:
        return self._comments.take(pa.array(self._integers(0, _POOL - 1, count)))

    def _some(self, pool: Sequence[str], count: int) -> pa.Array:
        return _one_of(pool, self._integers(0, len(pool) - 1, count))

    def _integers(self, least: int, most: int, count: int) -> Integers:
        return self.random.integers(least, most, count, endpoint=True)


def _retail_cents(part: Integers) -> Integers:
    """The price of a part, which its key says (4.2.3)."""
    return 90_000 + part // 10 % 20_001 + 100 * (part % 1_000)


def _one_of(pool: Sequence[str], at: Integers) -> pa.Array:
    return pa.array(list(pool)).take(pa.array(at))


def _numbered(word: str, numbers: Integers) -> pa.Array:
    return pc.binary_join_element_wise(word, pa.array(numbers).cast("string"), "")


def _table(name: str, columns: Sequence[object]) -> pa.Table:
    schema = as_schema(SCHEMAS[name])
    arrays = [_as(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _as(values: object, kind: pa.DataType) -> pa.Array:
    """A column of a type; integers are days of a date, and hundredths of a decimal."""
    if pa.types.is_decimal(kind):
        cents = np.asarray(values, np.int64)
        halves = np.stack([cents, cents >> 63], axis=1)  # the 128 bits of a number that has at most 64
        return pa.Array.from_buffers(kind, len(cents), [None, pa.py_buffer(halves)])
    made = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if pa.types.is_date(kind):
        return made.cast(pa.int32()).cast(kind)
    return made.cast(kind)


def rows_of(tables: Mapping[str, pa.Table]) -> int:
    """How many rows tables have together."""
    return sum(table.num_rows for table in tables.values())
