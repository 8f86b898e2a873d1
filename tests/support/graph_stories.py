"""Random stories of graphs: insertions and deletions that are hard, over ids at the limits of every type.

A story is a list of epochs. Its vertices are *places*: the numbers 0 to n - 1, which stand for n ids of a
type in ascending order. Oracles work on places, so that one oracle serves every type; ``PALETTES`` has
the ids.

Each epoch makes some moves. Every story contains each of the moves that algorithms get wrong: a loop at a
vertex comes and goes, of parallel edges the shorter one goes, a vertex leaves with all its edges and returns,
a vertex is given without edges, the least or the greatest id is left alone, all sources go and return,
everything goes, an epoch is undone, and an edge is deleted and inserted in one epoch. New vertices join all
the time, so that ids are being numbered whenever the number of workers changes.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

Edge = tuple[int, int, int]
"""Two places and a length."""
Changes = list[tuple[Any, int]]
"""Edges or places, with +1 or -1."""

NAN = float("nan")
_LARGE = "9" * 36 + ".99"
_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
_LIMITS = {name: (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for name, bits in _BITS.items()}

PALETTES: dict[str, list[Any]] = {
    **{name: [low, low + 1, -1, 0, 1, 2, high - 1, high] for name, (low, high) in _LIMITS.items()},
    "uint8": [0, 1, 127, 128, 254, 255],
    "uint64": [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1],
    "boolean": [False, True],
    "string": ["", "\0", " ", "A", "a", "ab", *map("b{}".format, range(9)), "\u00e4", "\uffff", "\U0001f600"],
    "large_string": ["", "a", "ab", "\U0001f600"],
    "binary": [b"", b"\0", b"\0\0", b"a", b"\xff"],
    "date": [date.min, date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2), date.max],
    "time64": [time.min, time(0, 0, 0, 1), time(12), time.max],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
    "decimal(38,2)": [
        Decimal(f"-{'9' * 36}.99"),
        Decimal("-0.01"),
        Decimal("0.00"),
        Decimal(f"{'9' * 36}.99"),
    ],
    "float": [float("-inf"), -1.5, 0.0, 1.5, float("inf"), NAN],
    "double": [float("-inf"), -1.5, 0.0, 5e-324, 1.7976931348623157e308, float("inf"), NAN],
}
"""Ids of each type in ascending order: the least and the greatest, and those next to zero."""

ALIASES: dict[str, dict[int, Any]] = {"float": {2: -0.0}, "double": {2: -0.0}}
"""Other values that are the same id, by the place of the id."""

TYPES: dict[str, pa.DataType] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "uint8": pa.uint8(),
    "uint64": pa.uint64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time64": pa.time64("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "decimal(38,2)": pa.decimal128(38, 2),
    "float": pa.float32(),
    "double": pa.float64(),
}


@dataclass
class StoryEpoch:
    """What changes: rows with +1 or -1."""

    edges: Changes = field(default_factory=list)
    vertices: Changes = field(default_factory=list)
    sources: Changes = field(default_factory=list)

    def parts(self) -> tuple[Changes, Changes, Changes]:
        """The changes of edges, of vertices and of sources."""
        return self.edges, self.vertices, self.sources

    def undone(self) -> "StoryEpoch":
        """The opposite of it."""
        return StoryEpoch(*([(row, -by) for row, by in rows] for rows in self.parts()))

    def only_insertions(self) -> "StoryEpoch":
        """Without the deletions."""
        return StoryEpoch(*([(row, by) for row, by in rows if by > 0] for rows in self.parts()))


@dataclass
class _Teller:
    """The graph so far, and the epoch that is being told."""

    chance: random.Random
    last: int
    places: list[int]
    """Those that can be in the graph so far: new ones join all the time."""
    edges: Counter[Edge] = field(default_factory=Counter)
    given: Counter[int] = field(default_factory=Counter)
    sources: Counter[int] = field(default_factory=Counter)
    left: list[StoryEpoch] = field(default_factory=list)
    before: StoryEpoch | None = None
    now: StoryEpoch = field(default_factory=StoryEpoch)

    def apply(self, change: StoryEpoch) -> None:
        for there, rows, told in zip(self.counters(), change.parts(), self.now.parts(), strict=True):
            for row, by in rows:
                there[row] += by
                told.append((row, by))

    def counters(self) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
        return self.edges, self.given, self.sources

    def vertex(self) -> int:
        return self.chance.choice(self.places)

    def an_edge(self) -> Edge | None:
        there = sorted(+self.edges)
        return self.chance.choice(there) if there else None

    # The moves.

    def edges_come(self) -> None:
        new = [
            (self.vertex(), self.vertex(), self.chance.randrange(5))
            for _ in range(self.chance.randrange(2, 6))
        ]
        self.apply(StoryEpoch([(edge, 1) for edge in new]))

    def edges_go(self) -> None:
        there = sorted(self.edges.elements())
        gone = self.chance.sample(there, min(len(there), self.chance.randrange(1, 5)))
        self.apply(StoryEpoch([(edge, -1) for edge in gone]))

    def a_loop_comes(self) -> None:
        at = self.vertex()
        self.apply(StoryEpoch([((at, at, self.chance.randrange(5)), 1)]))

    def loops_go(self) -> None:
        self.apply(StoryEpoch([(edge, -1) for edge in sorted(self.edges.elements()) if edge[0] == edge[1]]))

    def a_parallel_edge_comes(self) -> None:
        if (edge := self.an_edge()) is not None:
            self.apply(
                StoryEpoch([((*edge[:2], self.chance.choice([n for n in range(6) if n != edge[2]])), 1)])
            )

    def a_copy_comes(self) -> None:
        if (edge := self.an_edge()) is not None:
            self.apply(StoryEpoch([(edge, 1)]))

    def the_shorter_of_two_goes(self) -> None:
        lengths: dict[tuple[int, int], list[int]] = {}
        for src, dst, length in +self.edges:
            lengths.setdefault((src, dst), []).append(length)
        parallel = sorted(pair for pair, several in lengths.items() if len(several) > 1)
        if parallel:
            pair = self.chance.choice(parallel)
            edge = (*pair, min(lengths[pair]))
            self.apply(StoryEpoch([(edge, -1)] * self.edges[edge]))

    def a_vertex_leaves(self) -> None:
        ends = sorted({end for edge in +self.edges for end in edge[:2]} | set(+self.given))
        if ends:
            who = self.chance.choice(ends)
            gone = StoryEpoch(
                [(edge, -1) for edge in sorted(self.edges.elements()) if who in edge[:2]],
                [(who, -1)] * self.given[who],
            )
            self.left.append(gone.undone())
            self.apply(gone)

    def a_limit_is_left_alone(self) -> None:
        who = self.chance.choice([0, self.last])
        edges = [(edge, -1) for edge in sorted(self.edges.elements()) if who in edge[:2]]
        self.apply(StoryEpoch(edges, [(who, 1)]))

    def a_vertex_returns(self) -> None:
        if self.left:
            self.apply(self.left.pop())

    def a_vertex_is_given(self) -> None:
        self.apply(StoryEpoch([], [(self.vertex(), 1)]))

    def a_vertex_is_given_no_more(self) -> None:
        if there := sorted(self.given.elements()):
            self.apply(StoryEpoch([], [(self.chance.choice(there), -1)]))

    def a_source_comes(self) -> None:
        self.apply(StoryEpoch([], [], [(self.vertex(), 1)]))

    def a_source_goes(self) -> None:
        if there := sorted(self.sources.elements()):
            self.apply(StoryEpoch([], [], [(self.chance.choice(there), -1)]))

    def all_sources_go(self) -> None:
        self.apply(StoryEpoch([], [], [(each, -1) for each in sorted(self.sources.elements())]))

    def everything_goes(self) -> None:
        self.apply(
            StoryEpoch(
                [(edge, -1) for edge in sorted(self.edges.elements())],
                [(each, -1) for each in sorted(self.given.elements())],
            )
        )

    def an_edge_is_replaced(self) -> None:
        edge, again = self.an_edge(), self.an_edge()
        if edge is not None:
            self.apply(StoryEpoch([(edge, -1), ((*edge[:2], edge[2] + 1), 1)]))
            if again is not None and again != edge:
                self.apply(StoryEpoch([(again, -1), (again, 1)]))

    def the_epoch_before_is_undone(self) -> None:
        if self.before is not None and self._can(self.before.undone()):
            self.apply(self.before.undone())

    def _can(self, change: StoryEpoch) -> bool:
        for there, rows in zip(self.counters(), change.parts(), strict=True):
            left = Counter(there)
            for row, by in rows:
                left[row] += by
            if any(by < 0 for by in left.values()):
                return False
        return True


_USUAL: Sequence[Callable[[_Teller], None]] = (
    *(_Teller.edges_come, _Teller.edges_come, _Teller.edges_go, _Teller.a_loop_comes, _Teller.a_copy_comes),
    *(_Teller.a_parallel_edge_comes, _Teller.a_vertex_is_given, _Teller.a_source_comes),
)
"""What happens in any epoch."""

_CHAPTERS: Sequence[Sequence[Callable[[_Teller], None]]] = (
    (_Teller.edges_come, _Teller.a_source_comes),
    (_Teller.a_parallel_edge_comes, _Teller.the_shorter_of_two_goes),
    (_Teller.a_vertex_leaves,),
    (_Teller.a_vertex_returns, _Teller.a_vertex_is_given_no_more, _Teller.a_limit_is_left_alone),
    (_Teller.loops_go, _Teller.a_source_goes),
    (_Teller.all_sources_go,),
    (_Teller.an_edge_is_replaced, _Teller.a_source_comes, _Teller.a_limit_is_left_alone),
    (_Teller.the_epoch_before_is_undone,),
    (_Teller.everything_goes, _Teller.a_source_comes),
    (_Teller.edges_come, _Teller.a_vertex_returns),
    (_Teller.a_vertex_leaves, _Teller.the_shorter_of_two_goes),
    (_Teller.edges_come, _Teller.all_sources_go),
)
"""What happens besides, in one epoch after the other; some of it alone."""

_ALONE = {_Teller.all_sources_go, _Teller.the_epoch_before_is_undone, _Teller.everything_goes}


def random_story(seed: int, vertices: int, *, epochs: int = 12) -> list[StoryEpoch]:
    """A graph with so many places, from its first edges on; the same for the same seed."""
    chance = random.Random(seed)
    order = chance.sample(range(vertices), vertices)
    teller = _Teller(chance, vertices - 1, [])
    told = []
    for number in range(epochs):
        teller.now = StoryEpoch()
        teller.places = order[: max(2, vertices * (number + 4) // (epochs + 3))]
        chapter = (
            _CHAPTERS[(number - 1) % len(_CHAPTERS)]
            if number
            else (_Teller.edges_come, _Teller.a_source_comes)
        )
        if not _ALONE & set(chapter):
            for _ in range(teller.chance.randrange(1, 4)):
                teller.chance.choice(_USUAL)(teller)
        for move in chapter:
            move(teller)
        told.append(teller.now)
        teller.before = teller.now
    return told


def after(story: Sequence[StoryEpoch]) -> Iterator[tuple[list[Edge], list[int], list[int]]]:
    """The edges, the given vertices and the sources after each epoch, as often as they are there."""
    there: tuple[Counter[Any], Counter[Any], Counter[Any]] = Counter(), Counter(), Counter()
    edges, given, sources = there
    for epoch in story:
        for counter, rows in zip(there, epoch.parts(), strict=True):
            for row, by in rows:
                counter[row] += by
            assert min(counter.values(), default=0) >= 0
        yield sorted(edges.elements()), sorted(given.elements()), sorted(sources.elements())


def rows_of(epoch: StoryEpoch, key: str, seed: int) -> dict[str, pa.Table]:
    """The rows of an epoch for the inputs edges, vertices and sources, with ids of a type."""
    chance, palette, aliases = random.Random(seed), PALETTES[key], ALIASES.get(key, {})

    def named(place: int) -> Any:  # noqa: ANN401 - an id of any type
        return aliases[place] if place in aliases and chance.random() < 0.5 else palette[place]

    edges = [(named(src), named(dst), length, by) for (src, dst, length), by in epoch.edges]
    vertices = [(named(place), place % 3, by) for place, by in epoch.vertices]
    sources = [(named(place), by) for place, by in epoch.sources]
    rows: dict[str, Sequence[tuple[Any, ...]]] = {"edges": edges, "vertices": vertices, "sources": sources}
    return {name: _table(rows[name], schema) for name, schema in schemas_of(key).items()}


def schemas_of(key: str) -> dict[str, pa.Schema]:
    """The inputs edges, vertices and sources, with ids of a type."""
    kind, number = TYPES[key], pa.int64()
    return {
        "edges": pa.schema({"src": kind, "dst": kind, "km": number, "w": number}),
        "vertices": pa.schema({"id": kind, "colour": number, "w": number}),
        "sources": pa.schema({"id": kind, "w": number}),
    }


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)


def place_of(value: Any, key: str) -> int:  # noqa: ANN401 - an id of any type
    """The place of an id; ValueError if it is none of the type's palette."""
    if value != value:
        return PALETTES[key].index(NAN)
    return PALETTES[key].index(value)
