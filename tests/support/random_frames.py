# ruff: noqa: E501, S608 - a query is read best in one line, and these are made for tests
"""Random queries in Spark's SQL, drawn by hypothesis: what a DataFrame of a user could be.

Each has joins of all kinds, aggregates, windows, set operations and subqueries, over expressions of every type
with nulls. ``{t}`` and ``{u}`` stand for the tables, so that one text can be asked of many of them. Expressions
cannot raise (``try_`` forms are drawn where plain ones could), and what Spark leaves open (which of several
rows a LIMIT takes) is never asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn as Draw

T = TypeVar("T")

Column = tuple[str, str]
"""The name of a column and its type."""

COLUMNS: Final[dict[str, list[Column]]] = {
    "t": [
        ("id", "long"), ("k", "string"), ("i", "int"), ("x", "double"), ("d", "decimal"), ("e", "large"),
        ("day", "date"), ("at", "timestamp"), ("b", "boolean"),
    ],
    "u": [("id", "long"), ("k", "string"), ("i", "int"), ("d", "decimal"), ("day", "date")],
}  # fmt: skip
TYPES: Final = ("int", "string", "double", "decimal", "date", "timestamp", "boolean", "large", "long")
_CASTS: Final = {"decimal": "decimal(12,2)", "large": "decimal(38,18)"}
_LITERALS: Final = {
    "int": ("1", "0", "-3", "7"),
    "long": ("2L", "9223372036854775807L", "-1L"),
    "double": ("0.5D", "-0.0D", "double('NaN')", "double('inf')", "3.0D"),
    "decimal": ("1.25BD", "-0.01BD", "9999999999.99BD"),
    "large": ("99999999999999999999.999999999999999999BD", "-0.000000000000000001BD"),
    "string": ("'a'", "''", "'ß ü'", "'日本'", "' x '"),
    "date": ("date'2024-03-10'", "date'1969-12-31'", "date'0004-02-29'"),
    "timestamp": ("timestamp'2024-11-03 06:30:00Z'", "timestamp'1901-01-01 00:00:00Z'"),
    "boolean": ("true", "false"),
}


@dataclass
class Drawn:
    """One query in the making."""

    draw: Draw
    _names: int = field(default=0)

    def pick(self, choices: Sequence[T]) -> T:
        """One of these; the first is the simplest."""
        return self.draw(st.sampled_from(choices))

    def chance(self) -> bool:
        """Yes or no."""
        return self.draw(st.booleans())

    def name(self) -> str:
        """A new name for a relation."""
        self._names += 1
        return f"q{self._names}"

    # Expressions.

    def expression(self, kind: str, columns: Sequence[Column], depth: int = 2) -> str:
        """An expression of a type over columns."""
        own = [name for name, each in columns if each == kind]
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            if own and self.draw(st.integers(0, 4)) > 0:
                return self.pick(own)
            cast = _CASTS.get(kind, kind)
            return self.pick([*_LITERALS[kind], f"cast(null as {cast})"])

        def of(other: str) -> str:
            return self.expression(other, columns, depth - 1)

        return self.pick(_FORMS[kind])(of)

    def condition(self, columns: Sequence[Column], depth: int = 2) -> str:
        """A condition."""
        return self.expression("boolean", columns, depth)

    # Relations.

    def relation(self, depth: int) -> tuple[str, list[Column]]:
        """What stands in FROM, and its columns with their qualifier."""
        name = self.name()
        if depth == 0 or self.chance():
            table = self.pick(["t", "u"])
            return f"{{{table}}} as {name}", [(f"{name}.{each}", kind) for each, kind in COLUMNS[table]]
        text, columns = self.query(depth - 1)
        return f"({text}) as {name}", [(f"{name}.{each}", kind) for each, kind in columns]

    def source(self, depth: int) -> tuple[str, list[Column]]:
        """A relation, or two that are joined."""
        left, columns = self.relation(depth)
        if not self.chance():
            return left, columns
        right, others = self.relation(max(depth - 1, 0))
        kinds = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
        kind = self.pick(kinds)
        shared = sorted({each for _, each in columns} & {each for _, each in others} - {"double", "boolean"})
        if not shared:
            return f"{left} cross join {right}", [*columns, *others]
        wanted = self.pick(shared)
        sides = [self.pick([name for name, each in of if each == wanted]) for of in (columns, others)]
        on = f"{sides[0]} {self.pick(['=', '<=>'])} {sides[1]}"
        if self.chance():
            on += f" and {self.condition([*columns, *others], 1)}"
        kept = columns if kind in kinds[-2:] else [*columns, *others]
        return f"{left} {kind} {right} on {on}", kept

    def where(self, columns: Sequence[Column], depth: int) -> str:
        """A WHERE, with a subquery now and then, or nothing."""
        form = self.draw(st.integers(0, 6))
        if form < 2 or depth == 0:
            return "" if form == 0 else f" where {self.condition(columns)}"
        inner, others = self.relation(0)
        shared = sorted({each for _, each in columns} & {each for _, each in others} - {"double", "boolean"})
        if form < 4 or not shared:
            return f" where {self.condition(columns)}"
        kind = self.pick(shared)
        outer, own = (self.pick([name for name, each in of if each == kind]) for of in (columns, others))
        word = self.pick(["", "not "])
        if form == 4:
            return f" where {outer} {word}in (select {own} from {inner} where {self.condition(others, 1)})"
        if form == 5:
            match = f"{own} = {outer} and {self.condition(others, 1)}"
            return f" where {word}exists (select 1 from {inner} where {match})"
        counted = f"(select count(*) from {inner} where {own} = {outer})"
        return f" where {counted} {self.pick(['>', '='])} {self.pick(['0', '1'])}"

    # Queries.

    def query(self, depth: int) -> tuple[str, list[Column]]:
        """A query, and its columns."""
        return self.pick([self.select, self.aggregate, self.window, self.combined, self.limited])(depth)

    def select(self, depth: int) -> tuple[str, list[Column]]:
        """Expressions of a relation."""
        source, columns = self.source(depth)
        kinds = self.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
        parts, made = self._named([(self.expression(kind, columns), kind) for kind in kinds])
        distinct = "distinct " if self.chance() else ""
        return f"select {distinct}{parts} from {source}{self.where(columns, depth)}", made

    def aggregate(self, depth: int) -> tuple[str, list[Column]]:
        """Groups, with grouping sets and HAVING now and then."""
        source, columns = self.source(depth)
        where = self.where(columns, depth)
        kinds = self.draw(st.lists(st.sampled_from(TYPES), max_size=2))
        keys = [(self.expression(kind, columns, 1), kind) for kind in kinds]
        found = [self._aggregated(columns) for _ in range(self.draw(st.integers(1, 3)))]
        parts, made = self._named([*keys, *found])
        text = f"select {parts} from {source}{where}"
        if keys:
            places = ", ".join(str(place + 1) for place in range(len(keys)))
            shape = (
                self.pick(["{}", "rollup({})", "cube({})"]) if all("(" not in k for k, _ in keys) else "{}"
            )
            names = ", ".join(key for key, _ in keys) if shape != "{}" else places
            constant = any(key[0] in "'-0123456789tfdc" and "." not in key for key, _ in keys)
            text += f" group by {(shape if not constant else '{}').format(names if not constant else places)}"
            if self.chance():
                text += f" having count(*) > {self.pick(['0', '1'])}"
        return text, made

    def _aggregated(self, columns: Sequence[Column]) -> Column:
        form = self.pick(
            ["count", "sum int", "sum decimal", "avg", "extreme", "distinct", "double", "boolean", "moment"]
        )
        only = f" filter (where {self.condition(columns, 1)})" if self.draw(st.integers(0, 3)) == 0 else ""
        kind = self.pick(TYPES)
        value = self.expression(kind, columns, 1)
        if form == "count":
            return f"count({self.pick(['*', value])}){only}", "long"
        if form == "sum int":
            return f"sum({self.expression('int', columns, 1)}){only}", "long"
        if form == "sum decimal":
            given = f"try_cast({self.expression('decimal', columns, 1)} as decimal(12,2))"
            return f"try_cast(sum({given}){only} as decimal(12,2))", "decimal"
        if form == "avg":
            return f"avg({self.expression('int', columns, 1)}){only}", "double"
        if form == "distinct":
            return f"count(distinct {value}){only}", "long"
        if form == "double":
            return f"sum({self.expression('double', columns, 1)}){only}", "double"
        if form == "moment":
            given = self.expression("int", columns, 1)
            return f"{self.pick(['stddev_samp', 'var_pop', 'bit_xor'])}(cast({given} as long)){only}", "any"
        if form == "boolean":
            return f"{self.pick(['bool_or', 'bool_and'])}({self.condition(columns, 1)}){only}", "boolean"
        return f"{self.pick(['max', 'min'])}({value}){only}", kind

    def window(self, depth: int) -> tuple[str, list[Column]]:
        """Functions over windows, whose order is by all columns where it matters."""
        source, columns = self.source(depth)
        where = self.where(columns, depth)
        whole = ", ".join(f"{name} {self.pick(['', 'desc', 'nulls last'])}" for name, _ in columns)
        keys = self.pick([name for name, _ in columns])
        order = self.pick([name for name, kind in columns if kind not in ("boolean",)])
        value = self.expression("int", columns, 1)
        frame = self.pick(["", " rows between 1 preceding and 1 following", " rows unbounded preceding"])
        by_all = f"over (partition by {keys} order by {whole})"
        found = [
            (f"row_number() {by_all}", "int"),
            (f"rank() over (partition by {keys} order by {order})", "int"),
            (f"dense_rank() over (order by {order} desc)", "int"),
            (f"sum({value}) over (partition by {keys} order by {whole}{frame})", "long"),
            (f"max({value}) over (partition by {keys} order by {order})", "int"),
            (f"count(*) over (partition by {keys})", "long"),
            (f"lag({value}, {self.pick(['1', '2'])}) {by_all}", "int"),
            (f"lead({value}) {by_all}", "int"),
            (f"first_value({value}) {by_all}", "int"),
            (f"percent_rank() over (partition by {keys} order by {order})", "double"),
            (f"ntile(2) {by_all}", "int"),
        ]
        chosen = self.draw(st.lists(st.sampled_from(found), min_size=1, max_size=3))
        others = [self.pick(columns) for _ in range(2)]
        parts, made = self._named([*others, *chosen])
        return f"select {parts} from {source}{where}", made

    def combined(self, depth: int) -> tuple[str, list[Column]]:
        """Two queries, united, or one without the other."""
        kinds = self.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
        sides = []
        for _ in range(2):
            source, columns = self.source(max(depth - 1, 0))
            parts, made = self._named([(self._plain(kind, columns), kind) for kind in kinds])
            sides.append(f"select {parts} from {source}{self.where(columns, 0)}")
        word = self.pick(["union all", "union", "intersect", "except", "intersect all", "except all"])
        return f"{sides[0]} {word} {sides[1]}", made

    def limited(self, depth: int) -> tuple[str, list[Column]]:
        """The first rows in an order of all columns."""
        text, columns = self.select(depth)
        order = ", ".join(f"{name} {self.pick(['', 'desc', 'nulls last'])}" for name, _ in columns)
        name = self.name()
        return (
            f"select * from ({text}) as {name} order by {order} limit {self.pick(['3', '1', '10'])}",
            columns,
        )

    def _plain(self, kind: str, columns: Sequence[Column]) -> str:
        return f"try_cast({self.expression(kind, columns, 1)} as {_CASTS.get(kind, kind)})"

    def _named(self, found: Sequence[Column]) -> tuple[str, list[Column]]:
        names = [f"c{place}" for place in range(len(found))]
        parts = ", ".join(f"{each} as {name}" for (each, _), name in zip(found, names, strict=True))
        return parts, [(name, kind) for (_, kind), name in zip(found, names, strict=True)]


_Of = Callable[[str], str]


def _branches(kind: str) -> list[Callable[[_Of], str]]:
    return [
        lambda of: f"coalesce({of(kind)}, {of(kind)})",
        lambda of: f"case when {of('boolean')} then {of(kind)} else {of(kind)} end",
        lambda of: f"if({of('boolean')}, {of(kind)}, null)",
        lambda of: f"nullif({of(kind)}, {of(kind)})",
        lambda of: f"greatest({of(kind)}, {of(kind)})",
    ]


_FORMS: Final[dict[str, list[Callable[[_Of], str]]]] = {
    "int": [
        lambda of: f"try_add({of('int')}, {of('int')})",
        lambda of: f"try_multiply({of('int')}, {of('int')})",
        lambda of: f"pmod({of('int')}, 7)",
        lambda of: f"length({of('string')})",
        lambda of: f"year({of('date')})",
        lambda of: f"hour({of('timestamp')})",
        lambda of: f"datediff({of('date')}, {of('date')})",
        lambda of: f"cast({of('boolean')} as int)",
        lambda of: f"instr({of('string')}, {of('string')})",
        lambda of: f"({of('int')} & {of('int')})",
        *_branches("int"),
    ],
    "long": [
        lambda of: f"try_add({of('long')}, {of('int')})",
        lambda of: f"cast({of('int')} as long)",
        lambda of: f"try_subtract({of('long')}, {of('long')})",
        lambda of: f"unix_seconds({of('timestamp')})",
        *_branches("long"),
    ],
    "double": [
        lambda of: f"({of('double')} + {of('double')})",
        lambda of: f"({of('double')} * {of('double')})",
        lambda of: f"try_divide({of('double')}, {of('double')})",
        lambda of: f"cast({of('int')} as double)",
        lambda of: f"nanvl({of('double')}, {of('double')})",
        lambda of: f"abs({of('double')})",
        *_branches("double"),
    ],
    "decimal": [
        lambda of: f"cast(try_add({of('decimal')}, {of('decimal')}) as decimal(38,2))",
        lambda of: f"try_multiply({of('decimal')}, {of('decimal')})",
        lambda of: f"try_divide({of('decimal')}, {of('decimal')})",
        lambda of: f"round({of('decimal')}, 1)",
        lambda of: f"try_cast({of('int')} as decimal(4,2))",
        *_branches("decimal"),
    ],
    "large": [
        lambda of: f"try_add({of('large')}, {of('large')})",
        lambda of: f"try_multiply({of('large')}, {of('large')})",
        lambda of: f"try_subtract({of('large')}, {of('decimal')})",
        *_branches("large"),
    ],
    "string": [
        lambda of: f"concat({of('string')}, {of('string')})",
        lambda of: f"upper({of('string')})",
        lambda of: f"lower({of('string')})",
        lambda of: f"trim({of('string')})",
        lambda of: f"substring({of('string')}, 2, 2)",
        lambda of: f"reverse({of('string')})",
        lambda of: f"cast({of('int')} as string)",
        lambda of: f"cast({of('date')} as string)",
        lambda of: f"cast({of('timestamp')} as string)",
        lambda of: f"cast({of('double')} as string)",
        lambda of: f"cast({of('boolean')} as string)",
        lambda of: f"date_format({of('timestamp')}, 'yyyy-MM-dd HH:mm')",
        lambda of: f"lpad({of('string')}, 4, '*')",
        *_branches("string"),
    ],
    "date": [
        lambda of: f"date_add({of('date')}, pmod({of('int')}, 100))",
        lambda of: f"last_day({of('date')})",
        lambda of: f"trunc({of('date')}, 'MM')",
        lambda of: f"cast({of('timestamp')} as date)",
        lambda of: f"add_months({of('date')}, 1)",
        *_branches("date"),
    ],
    "timestamp": [
        lambda of: f"date_trunc('HOUR', {of('timestamp')})",
        lambda of: f"date_trunc('DAY', {of('timestamp')})",
        lambda of: f"({of('timestamp')} + interval '1' day)",
        lambda of: f"cast({of('date')} as timestamp)",
        *_branches("timestamp"),
    ],
    "boolean": [
        lambda of: f"({of('boolean')} and {of('boolean')})",
        lambda of: f"({of('boolean')} or {of('boolean')})",
        lambda of: f"(not {of('boolean')})",
        lambda of: f"({of('int')} > {of('int')})",
        lambda of: f"({of('double')} >= {of('double')})",
        lambda of: f"({of('string')} < {of('string')})",
        lambda of: f"({of('date')} = {of('date')})",
        lambda of: f"({of('timestamp')} <= {of('timestamp')})",
        lambda of: f"({of('decimal')} <> {of('decimal')})",
        lambda of: f"({of('int')} <=> {of('int')})",
        lambda of: f"({of('string')} is null)",
        lambda of: f"({of('string')} like '%a%')",
        lambda of: f"({of('int')} in (1, 2, {of('int')}))",
        *_branches("boolean"),
    ],
}


@st.composite
def queries(draw: Draw, depth: int = 2) -> str:
    """Texts of queries, with ``{t}`` and ``{u}`` for the tables."""
    return Drawn(draw).query(depth)[0]
