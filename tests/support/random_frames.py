# ruff: noqa: E501, S608 - a query is read best in one line, and these are made for tests
"""Random queries in Spark's SQL, drawn by hypothesis: what a DataFrame of a user could be.

Each has joins of all kinds, aggregates, windows, set operations, generators, common table expressions and
subqueries, over expressions of every type with nulls. ``{t}`` and ``{u}`` stand for the tables, so that one text can be asked of many of them. Expressions
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
        ("day", "date"), ("at", "timestamp"), ("b", "boolean"), ("s", "short"), ("f", "float"),
        ("n", "timestamp_ntz"), ("y", "binary"), ("l", "list"), ("r", "struct"),
    ],
    "u": [("id", "long"), ("k", "string"), ("i", "int"), ("d", "decimal"), ("day", "date")],
}  # fmt: skip
TYPES: Final = (
    "int", "string", "double", "decimal", "date", "timestamp", "boolean", "large", "long", "short", "float",
    "timestamp_ntz", "binary", "list", "struct",
)  # fmt: skip
_CASTS: Final = {
    "decimal": "decimal(12,2)",
    "large": "decimal(38,18)",
    "list": "array<int>",
    "struct": "struct<p: int, q: string>",
}
_NOT_JOINED: Final = {"double", "float", "boolean"}
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
    "short": ("1S", "-32768S"),
    "float": ("0.1F", "-0.0F", "float('NaN')", "1e30F"),
    "timestamp_ntz": ("timestamp_ntz'2024-03-10 02:30:00'", "timestamp_ntz'1582-10-10 00:00:00.000001'"),
    "binary": ("x''", "x'00ff'", "x'61'"),
    "list": ("array(1, null)", "array(2, 3, 2)", "cast(array() as array<int>)"),
    "struct": ("named_struct('p', 1, 'q', 'a')", "named_struct('p', cast(null as int), 'q', 'ß')"),
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
            lists = [name for name, kind in columns if kind == "list"]
            if lists and self.draw(st.integers(0, 3)) == 0:
                return self._exploded(left, columns, self.pick(lists))
            return left, columns
        right, others = self.relation(max(depth - 1, 0))
        kinds = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
        kind = self.pick(kinds)
        shared = sorted({each for _, each in columns} & {each for _, each in others} - _NOT_JOINED)
        if not shared:
            return f"{left} cross join {right}", [*columns, *others]
        wanted = self.pick(shared)
        sides = [self.pick([name for name, each in of if each == wanted]) for of in (columns, others)]
        on = f"{sides[0]} {self.pick(['=', '<=>'])} {sides[1]}"
        if self.chance():
            on += f" and {self.condition([*columns, *others], 1)}"
        kept = columns if kind in kinds[-2:] else [*columns, *others]
        return f"{left} {kind} {right} on {on}", kept

    def _exploded(self, relation: str, columns: list[Column], column: str) -> tuple[str, list[Column]]:
        """A relation with a row for each element of a list."""
        name = self.name()
        outer = self.pick(["", "outer "])
        if self.chance():
            made = [(f"{name}.pos", "int"), (f"{name}.v", "int")]
            return f"{relation} lateral view {outer}posexplode({column}) {name} as pos, v", [*columns, *made]
        return f"{relation} lateral view {outer}explode({column}) {name} as v", [
            *columns,
            (f"{name}.v", "int"),
        ]

    def where(self, columns: Sequence[Column], depth: int) -> str:
        """A WHERE, with a subquery now and then, or nothing."""
        form = self.draw(st.integers(0, 7))
        if form < 2 or depth == 0:
            return "" if form == 0 else f" where {self.condition(columns)}"
        inner, others = self.relation(0)
        shared = sorted({each for _, each in columns} & {each for _, each in others} - _NOT_JOINED)
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
        if form == 6:
            known = self._aggregated(others, is_filtered=False)
            equal = self.pick(["=", "<=>", "<", "<>"])
            of_kind = [name for name, each in columns if each == known[1]]
            if of_kind and known[1] not in ("boolean", "double", "float"):
                return f" where {self.pick(of_kind)} {equal} (select {known[0]} from {inner} where {own} = {outer})"
        counted = f"(select count(*) from {inner} where {own} = {outer})"
        return f" where {counted} {self.pick(['>', '='])} {self.pick(['0', '1'])}"

    # Queries.

    def query(self, depth: int) -> tuple[str, list[Column]]:
        """A query, and its columns."""
        made = [
            self.select, self.aggregate, self.window, self.combined, self.limited, self.named_twice,
            self.with_lookup, self.pivoted, self.numbered,
        ]  # fmt: skip
        return self.pick(made)(depth)

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

    def _aggregated(self, columns: Sequence[Column], *, is_filtered: bool = True) -> Column:
        forms = [
            "count", "sum int", "sum decimal", "avg", "extreme", "distinct", "double", "boolean", "moment",
            "sum distinct", "list", "set", "by", "avg decimal", "percentile", "texts",
        ]  # fmt: skip
        form = self.pick(forms)
        only = (
            f" filter (where {self.condition(columns, 1)})"
            if is_filtered and self.draw(st.integers(0, 3)) == 0
            else ""
        )
        kind = self.pick(TYPES)
        value = self.expression(kind, columns, 1)
        if form == "sum distinct":
            return f"sum(distinct {self.expression('int', columns, 1)}){only}", "long"
        if form == "list":
            return f"sort_array(collect_list({self.expression('int', columns, 1)}){only})", "list"
        if form == "set":
            return f"sort_array(collect_set({self.expression('int', columns, 1)}){only}, false)", "list"
        if form == "by":
            given, order = self.expression("int", columns, 1), self.expression("int", columns, 1)
            return f"{self.pick(['max_by', 'min_by'])}({given}, struct({order}, {given})){only}", "int"
        if form == "avg decimal":
            return f"avg({self.expression('decimal', columns, 1)}){only}", "any"
        if form == "percentile":
            given = self.expression("int", columns, 1)
            return f"median({given}){only}", "double"
        if form == "texts":
            given = self.expression("string", columns, 1)
            return f"listagg({given}, '|') within group (order by {given}){only}", "string"
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
        whole = self._total(columns)
        keys = self.pick([name for name, _ in columns])
        order = self.pick([name for name, kind in columns if kind not in ("boolean", "list")])
        value = self.expression("int", columns, 1)
        frame = self.pick(
            ["", " rows between 1 preceding and 1 following", " rows unbounded preceding",
             " rows between 2 following and 3 following", " rows between current row and unbounded following"]
        )  # fmt: skip
        numbers = [name for name, kind in columns if kind in ("int", "long", "date", "short", "decimal")]
        near = self.pick(numbers) if numbers else "1"
        span = self.pick(
            [
                "1 preceding and 1 following",
                "unbounded preceding and 2 preceding",
                "current row and 3 following",
            ]
        )
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
            (f"last_value({value}) ignore nulls {by_all}", "int"),
            (f"cume_dist() over (partition by {keys} order by {order} desc)", "double"),
            (
                f"sum({value}) over (partition by {keys} order by {near} {self.pick(['', 'desc'])} "
                f"range between {span})",
                "long",
            ),
            (f"avg({value}) over (partition by {keys} order by {whole}{frame})", "double"),
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
        order = self._total(columns)
        name = self.name()
        return (
            f"select * from ({text}) as {name} order by {order} limit {self.pick(['3', '1', '10'])}",
            columns,
        )

    def named_twice(self, depth: int) -> tuple[str, list[Column]]:
        """A common table expression that is read twice."""
        text, columns = self.query(max(depth - 1, 0))
        name, one, two = self.name(), self.name(), self.name()
        kinds = {kind for _, kind in columns} - _NOT_JOINED - {"any"}
        first = next((each for each, kind in columns if kind in kinds), None)
        if first is None:
            body = f"select * from {name} union all select * from {name}"
            return f"with {name} as ({text}) {body}", columns
        made = [(f"c{place}", kind) for place, (_, kind) in enumerate(columns)]
        parts = ", ".join(f"{one}.{each} as c{place}" for place, (each, _) in enumerate(columns))
        join = self.pick(["join", "left join", "left anti join", "full join"])
        body = f"select {parts} from {name} as {one} {join} {name} as {two} on {one}.{first} = {two}.{first}"
        return f"with {name} as ({text}) {body}", made

    def with_lookup(self, depth: int) -> tuple[str, list[Column]]:
        """Scalar and lateral subqueries in the list of columns."""
        source, columns = self.relation(depth)
        inner, others = self.relation(0)
        shared = sorted({each for _, each in columns} & {each for _, each in others} - _NOT_JOINED - {"any"})
        if not shared:
            return self.select(depth)
        kind = self.pick(shared)
        outer, own = (self.pick([name for name, each in of if each == kind]) for of in (columns, others))
        found, its_kind = self._aggregated(others)
        subquery = f"select {found} as z from {inner} where {own} = {outer}"
        if self.chance():
            subquery += f" and {self.condition(others, 1)}"
        plain = self.pick(columns)
        if self.chance():
            parts, made = self._named([plain, (f"({subquery})", its_kind)])
            return f"select {parts} from {source}", made
        name = self.name()
        parts, made = self._named([plain, (f"{name}.z", its_kind)])
        return f"select {parts} from {source}, lateral ({subquery}) as {name}", made

    def pivoted(self, depth: int) -> tuple[str, list[Column]]:
        """Values of a column as columns."""
        source, columns = self.source(depth)
        keys = [(self.expression(kind, columns, 1), kind) for kind in [self.pick(TYPES)]]
        keys.append((self.expression("int", columns, 1), "int"))
        keys.append((self.expression("int", columns, 1), "int"))
        parts, _ = self._named(keys)
        found = self.pick(["sum(c2)", "count(c2)", "max(c2)", "count(*)"])
        name = self.name()
        text = f"select * from (select {parts} from {source}) pivot ({found} for c1 in (1 as v1, 2 as v2, null as v3))"
        kind = "int" if found == "max(c2)" else "long"
        made = [("c0", keys[0][1]), ("v1", kind), ("v2", kind), ("v3", kind)]
        return f"select * from ({text}) as {name}", made

    def numbered(self, depth: int) -> tuple[str, list[Column]]:
        """The first rows of each group."""
        text, columns = self.select(depth)
        keys = self.pick([name for name, _ in columns])
        order = self._total(columns)
        name = self.name()
        function = self.pick(["row_number()", "rank()", "dense_rank()"])
        ranked = (
            f"select *, {function} over (partition by {keys} order by {order}) as rn from ({text}) as {name}"
        )
        return f"select * from ({ranked}) as {self.name()} where rn <= {self.pick(['1', '2'])}", [
            *columns,
            ("rn", "int"),
        ]

    def _total(self, columns: Sequence[Column]) -> str:
        """An order of all columns; lists are ordered by their texts."""
        parts = (f"cast({name} as string)" if kind in ("list", "any") else name for name, kind in columns)
        return ", ".join(f"{each} {self.pick(['', 'desc', 'nulls last'])}" for each in parts)

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
        lambda of: f"size({of('list')})",
        lambda of: f"{of('struct')}.p",
        lambda of: f"try_element_at({of('list')}, 2)",
        lambda of: f"try_cast({of('string')} as int)",
        lambda of: f"dayofweek({of('timestamp_ntz')})",
        lambda of: f"aggregate({of('list')}, 0, (a, v) -> a + coalesce(v % 10, 1))",
        lambda of: f"length({of('binary')})",
        lambda of: f"cast({of('short')} as int)",
        *_branches("int"),
    ],
    "long": [
        lambda of: f"try_add({of('long')}, {of('int')})",
        lambda of: f"cast({of('int')} as long)",
        lambda of: f"try_subtract({of('long')}, {of('long')})",
        lambda of: f"unix_seconds({of('timestamp')})",
        lambda of: f"timestampdiff(HOUR, {of('timestamp')}, {of('timestamp')})",
        lambda of: f"xxhash64({of('string')}, {of('decimal')}, {of('timestamp')})",
        lambda of: f"try_cast({of('double')} as long)",
        *_branches("long"),
    ],
    "double": [
        lambda of: f"({of('double')} + {of('double')})",
        lambda of: f"({of('double')} * {of('double')})",
        lambda of: f"try_divide({of('double')}, {of('double')})",
        lambda of: f"cast({of('int')} as double)",
        lambda of: f"nanvl({of('double')}, {of('double')})",
        lambda of: f"abs({of('double')})",
        lambda of: f"cast({of('float')} as double)",
        lambda of: f"round({of('double')}, 1)",
        lambda of: f"cast({of('large')} as double)",
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
        lambda of: f"try_divide({of('large')}, {of('decimal')})",
        lambda of: f"try_mod({of('large')}, {of('decimal')})",
        lambda of: f"try_cast({of('string')} as decimal(38,18))",
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
        lambda of: f"cast({of('timestamp_ntz')} as string)",
        lambda of: f"cast({of('large')} as string)",
        lambda of: f"cast({of('float')} as string)",
        lambda of: f"cast({of('list')} as string)",
        lambda of: f"to_json({of('struct')})",
        lambda of: f"hex({of('binary')})",
        lambda of: f"{of('struct')}.q",
        lambda of: f"regexp_replace({of('string')}, '[aß]', '<$0>')",
        *_branches("string"),
    ],
    "date": [
        lambda of: f"date_add({of('date')}, pmod({of('int')}, 100))",
        lambda of: f"last_day({of('date')})",
        lambda of: f"trunc({of('date')}, 'MM')",
        lambda of: f"cast({of('timestamp')} as date)",
        lambda of: f"add_months({of('date')}, 1)",
        lambda of: f"cast({of('timestamp_ntz')} as date)",
        lambda of: f"try_cast({of('string')} as date)",
        lambda of: f"next_day({of('date')}, 'SU')",
        *_branches("date"),
    ],
    "timestamp": [
        lambda of: f"date_trunc('HOUR', {of('timestamp')})",
        lambda of: f"date_trunc('DAY', {of('timestamp')})",
        lambda of: f"({of('timestamp')} + interval '1' day)",
        lambda of: f"cast({of('date')} as timestamp)",
        lambda of: f"cast({of('timestamp_ntz')} as timestamp)",
        lambda of: f"({of('timestamp')} - interval '26' hour)",
        lambda of: f"({of('timestamp')} + interval '1' month)",
        lambda of: f"date_trunc('WEEK', {of('timestamp')})",
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
        lambda of: f"({of('large')} < {of('decimal')})",
        lambda of: f"({of('float')} = {of('double')})",
        lambda of: f"({of('timestamp')} > {of('timestamp_ntz')})",
        lambda of: f"({of('date')} < {of('timestamp')})",
        lambda of: f"({of('binary')} <= {of('binary')})",
        lambda of: f"({of('list')} <=> {of('list')})",
        lambda of: f"({of('struct')} < {of('struct')})",
        lambda of: f"array_contains({of('list')}, {of('int')})",
        lambda of: f"exists({of('list')}, v -> v > {of('int')})",
        lambda of: f"isnan({of('double')})",
        lambda of: f"({of('string')} rlike '^.a?$')",
        lambda of: f"({of('short')} between {of('int')} and {of('long')})",
        *_branches("boolean"),
    ],
    "short": [
        lambda of: f"try_cast({of('int')} as smallint)",
        lambda of: f"try_add({of('short')}, {of('short')})",
        lambda of: f"({of('short')} | {of('short')})",
        *_branches("short"),
    ],
    "float": [
        lambda of: f"cast({of('double')} as float)",
        lambda of: f"({of('float')} * {of('float')})",
        lambda of: f"(- {of('float')})",
        lambda of: f"try_cast({of('string')} as float)",
        lambda of: f"cast({of('decimal')} as float)",
        *_branches("float"),
    ],
    "timestamp_ntz": [
        lambda of: f"cast({of('timestamp')} as timestamp_ntz)",
        lambda of: f"cast({of('date')} as timestamp_ntz)",
        lambda of: f"({of('timestamp_ntz')} + interval '90' minute)",
        lambda of: f"date_trunc('QUARTER', {of('timestamp_ntz')})",
        *_branches("timestamp_ntz"),
    ],
    "binary": [
        lambda of: f"cast({of('string')} as binary)",
        lambda of: f"concat({of('binary')}, {of('binary')})",
        lambda of: f"unhex({of('string')})",
        *_branches("binary"),
    ],
    "list": [
        lambda of: f"array({of('int')}, {of('int')})",
        lambda of: f"transform({of('list')}, (v, n) -> coalesce(v, n))",
        lambda of: f"filter({of('list')}, v -> v is null or v > {of('int')})",
        lambda of: f"sort_array({of('list')})",
        lambda of: f"array_distinct({of('list')})",
        lambda of: f"concat({of('list')}, {of('list')})",
        lambda of: f"array_except({of('list')}, {of('list')})",
        lambda of: f"slice({of('list')}, 1, 1)",
        *_branches("list"),
    ],
    "struct": [
        lambda of: f"named_struct('p', {of('int')}, 'q', {of('string')})",
        *_branches("struct"),
    ],
}


@st.composite
def queries(draw: Draw, depth: int = 2) -> str:
    """Texts of queries, with ``{t}`` and ``{u}`` for the tables."""
    return Drawn(draw).query(depth)[0]
