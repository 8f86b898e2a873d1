"""ROLLUP, CUBE and GROUPING SETS: one reduction for each set of keys, all of them together.

A key that is not in a set is null there. ``grouping(x)`` is 1 where x was left out, and ``grouping_id()`` has
a bit for each key, the first being the highest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.sql_views.aliases import Aliases
from pointstamp.sql_views.canonical import canonical
from pointstamp.sql_views.grouping import GroupedRows, aggregates_in, grouped
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.refusing import refused
from pointstamp.sql_views.scope import Relation, at_position
from pointstamp.sql_views.translating import Translator

_GROUPING: Final = ("grouping", "grouping_id")


@dataclass(slots=True)
class GroupSets:
    """What GROUP BY says: values to group by, and which of them are in each set."""

    nodes: list[exp.Expr]
    sets: list[tuple[int, ...]]

    @property
    def is_plain(self) -> bool:
        """Whether rows are grouped once, by all of them."""
        return self.sets == [tuple(range(len(self.nodes)))]

    def merged(self, keys: list[Expression]) -> tuple[list[Expression], "GroupSets"]:
        """What the nodes mean, and the sets of it: nodes that mean the same are one value."""
        first: dict[str, int] = {}
        numbers = [first.setdefault(canonical(key), len(first)) for key in keys]
        places = [numbers.index(number) for number in range(len(first))]
        sets = [tuple(dict.fromkeys(numbers[each] for each in own)) for own in self.sets]
        return [keys[place] for place in places], GroupSets([self.nodes[place] for place in places], sets)


def sets_of(
    group: exp.Group | None, aliases: Aliases, selected: list[exp.Expr], relation: Relation
) -> GroupSets:
    """Read GROUP BY; a number is a column of the select, and a name of it may be used."""
    if group is None:
        return GroupSets([], [()])
    reader = _Reader(aliases, relation)
    if group.args.get("all") and relation.scope.has(exp.column("all")):  # a column comes before GROUP BY ALL
        group = exp.Group(expressions=[exp.column("all")])
    if group.args.get("all"):
        plain = [each for each in selected if not any(True for _ in aggregates_in(each))]
        return GroupSets(plain, [tuple(range(len(plain)))])
    alternatives = [reader.sets(each) for each in group.expressions]
    for part, make in (("rollup", _prefixes), ("cube", _subsets)):
        for each in group.args.get(part) or []:
            inner = each.expressions or group.expressions
            if not each.expressions:  # GROUP BY a, b WITH ROLLUP
                alternatives = []
            alternatives.append(make([reader.of(one) for one in inner]))
    for each in group.args.get("grouping_sets") or []:  # GROUP BY a, b GROUPING SETS (...): these alone
        alternatives = [reader.several(each)]
    sets = [tuple(dict.fromkeys(chain.from_iterable(parts))) for parts in product(*alternatives)]
    return GroupSets(reader.nodes, sets)


class _Reader:
    """Gives each value of GROUP BY its number."""

    def __init__(self, aliases: Aliases, relation: Relation) -> None:
        self._aliases = aliases
        self._relation = relation
        self._numbers: dict[str, int] = {}
        self.nodes: list[exp.Expr] = []

    def sets(self, node: exp.Expr) -> list[tuple[int, ...]]:
        """The sets that an element of GROUP BY stands for."""
        if isinstance(node, exp.Rollup):
            return _prefixes([self.of(each) for each in node.expressions])
        if isinstance(node, exp.Cube):
            return _subsets([self.of(each) for each in node.expressions])
        if isinstance(node, exp.GroupingSets):
            return self.several(node)
        return [self.of(node)]

    def several(self, node: exp.GroupingSets) -> list[tuple[int, ...]]:
        """The sets of GROUPING SETS, in which ROLLUP, CUBE and others may stand."""
        return [own for each in node.expressions for own in self.sets(each)]

    def of(self, node: exp.Expr) -> tuple[int, ...]:
        """The numbers of one value, or of several in parentheses."""
        if isinstance(node, exp.Tuple):
            return tuple(chain.from_iterable(self.of(each) for each in node.expressions))
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Literal) and not node.is_string:
            node = self._aliases.at(node)
        node = at_position(node, self._relation) if POSITION in node.meta else self._aliases.beside(node)
        if any(True for _ in aggregates_in(node)):
            raise refused(node, "GROUP BY cannot have an aggregate in it")
        words = node.sql(dialect="spark")
        if words not in self._numbers:
            self._numbers[words] = len(self.nodes)
            self.nodes.append(node)
        return (self._numbers[words],)


def _prefixes(keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(chain.from_iterable(keys[:count])) for count in range(len(keys), -1, -1)]


def _subsets(keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    found = chain.from_iterable(combinations(keys, count) for count in range(len(keys), -1, -1))
    return [tuple(chain.from_iterable(each)) for each in found]


def grouping_sets(
    relation: Relation,
    keys: Sequence[Expression],
    nodes: Sequence[exp.Expr],
    translate: Translator,
    prefix: str,
    sets: GroupSets,
) -> GroupedRows:
    """The groups of all sets together."""
    names = [f"{prefix}.set{number}" for number in range(len(keys))]
    kinds = [translate.type_of(key) for key in keys]
    known = {canonical(key): number for number, key in enumerate(keys)}
    asked = [each for node in nodes for each in node.find_all(exp.Anonymous) if _is_grouping(each)]
    tables, made = [], None
    for own in sets.sets:
        # The set of all rows has a key, too: as in Spark it has a row only where there are rows.
        by = [keys[n] for n in own] or [lit(True)]
        made = grouped(relation, by, nodes, translate, prefix)
        by_number = dict(zip(own, made.keys, strict=False))
        columns = [by_number.get(n, lit(None).cast(kinds[n])).alias(name) for n, name in enumerate(names)]
        answers = dict.fromkeys(str(each.column) for each in made.answers.values())
        marks = [
            _grouping(each, own, known, len(keys), translate).alias(f"{prefix}.mark{number}")
            for number, each in enumerate(asked)
        ]
        tables.append(made.table.select(*columns, *answers, *marks).named("grouping set"))
    assert made is not None
    whole = tables[0]
    for other in tables[1:]:
        whole = whole.union(other)
    marked: dict[int, Expression] = {id(each): col(f"{prefix}.mark{n}") for n, each in enumerate(asked)}
    return GroupedRows(whole, [col(name) for name in names], {**made.answers, **marked}, made.counts)


def _is_grouping(node: exp.Anonymous) -> bool:
    return str(node.this).lower() in _GROUPING


def _grouping(
    node: exp.Anonymous, own: tuple[int, ...], known: dict[str, int], count: int, translate: Translator
) -> Expression:
    numbers = list(range(count))
    if node.expressions:
        words = [canonical(translate(each)) for each in node.expressions]
        if any(each not in known for each in words):
            raise refused(node, "grouping takes what rows are grouped by")
        numbers = [known[each] for each in words]
    bits = 0
    for number in numbers:
        bits = 2 * bits + (number not in own)
    is_one = str(node.this).lower() == "grouping"
    return lit(bits, pa.int8() if is_one else pa.int64())
