"""A graph: tables of edges and vertices, as all algorithms of this package take it.

    edges = flow.input("edges", "src long, dst long, km double, w long").running(weight="w")
    graph = graphs.Graph(edges, weight="km", directed=False)
    flow.output("levels", graphs.bfs(graph, source=1))

A graph is a view of tables, so it grows and shrinks with them: its vertices are those that were given and all
ends of edges, and a vertex that was only the end of an edge goes when its last edge goes. Ids are of any type
that can be a key. An edge may be there several times and may lead from a vertex to itself; each algorithm
says what it makes of that.

Nothing here is worked out before somebody asks: a graph that is only traversed never builds its vertices.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from functools import cached_property, partial
from typing import Final, TypeAlias

import pyarrow as pa

from pointstamp import Stream, Table, col, functions
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.arrays.ends import named_by
from pointstamp.graphs.arrays.numbering import NUMBER, can_be_numbered, numbers_of

Key: TypeAlias = int | str | bytes | float | bool | date
"""What an id can be, where one is named by its value."""

SRC: Final = "src"
DST: Final = "dst"
ID: Final = "id"
WEIGHT: Final = "weight"


class Graph:
    """Vertices and edges with their properties, as tables that change from epoch to epoch.

    ``src`` and ``dst`` name the columns of the two ends of an edge, ``id`` the column of a vertex, and
    ``weight`` a column of numbers. In a graph that is not ``directed`` every edge leads both ways.
    """

    def __init__(
        self,
        edges: Table | Stream,
        vertices: Table | Stream | None = None,
        *,
        src: str = SRC,
        dst: str = DST,
        id: str = ID,  # noqa: A002 - the column's name
        weight: str | None = None,
        directed: bool = True,
    ) -> None:
        self.edges: Final = _named("edges", _table("edges", edges), {SRC: src, DST: dst})
        """The edges as they were given, with ``src``, ``dst`` and all their properties."""
        self.weight: Final = weight
        """The column of weights among the properties of edges, if there is one."""
        self.directed: Final = directed
        """Whether an edge leads from ``src`` to ``dst`` only."""
        self._given: Final = (
            None if vertices is None else _named("vertices", _table("vertices", vertices), {ID: id})
        )
        self._check(weight)

    @cached_property
    def links(self) -> Table:
        """The edges as steps: ``src``, ``dst``, and ``weight`` if there is one; as often as they are there.

        Of a graph that is not directed every edge is here in both directions, a loop at a vertex once.
        """
        links, ends = self._one_way, self._one_way.schema.names
        if self.directed:
            return links
        back = links.filter(col(SRC) != col(DST), name="links: between two").select(
            name="links: back", **{each: col(_OTHER_END.get(each, each)) for each in ends}
        )
        return links.union(back, name="links: both ways")

    @cached_property
    def _one_way(self) -> Table:
        """The edges as they were given, as steps, none of which may leave a vertex open."""
        weights = {} if self.weight is None else {WEIGHT: col(self.weight)}
        there = self.edges.select(SRC, DST, name="links", **weights)
        return there.map_batches(partial(_checked, (SRC, DST)), name="links: ends are there")

    @cached_property
    def pairs(self) -> Table:
        """The edges without directions: ``src`` is the lesser end. They have weights, and are there as often.

        A loop at a vertex is a pair of it with itself.
        """
        if not self.directed:
            return self.links.filter(col(SRC) <= col(DST), name="pairs")
        ends = {SRC: functions.least(col(SRC), col(DST)), DST: functions.greatest(col(SRC), col(DST))}
        weights = [] if self.weight is None else [WEIGHT]
        return self.links.select(*weights, name="pairs", **ends)

    @cached_property
    def link_changes(self) -> Stream:
        """How the links change, without weights: each that changes in an epoch once, with ``diff``."""
        return self.links.select(SRC, DST, name="links: ends").changes(name="links: changes")

    @cached_property
    def ids(self) -> Table:
        """All vertices, each once: the column ``id``."""
        if self.is_for_arrays:
            return self.with_given(named_by(self.link_changes, name="ids: ends"))
        return self._named_vertices.distinct(name="ids")

    def with_given(self, named: Table) -> Table:
        """Each ``id`` of these and of the vertices that were given, once."""
        all_of_them = named if self.given is None else named.union(self.given, name="ids: all")
        return all_of_them.distinct(name="ids")

    def among(self, which: Table | Iterable[Key] | Key) -> Table:
        """The vertices that are among these, as ``id``: of a table with that column, of several ids, or one.

        Who is no vertex of the graph is not there, until it becomes one.
        """
        if isinstance(which, Table):
            if which.schema.names != [ID] or which.schema.field(ID).type != self.key_type:
                raise SchemaError(
                    f"vertices of {self} are named by a table of '{ID}' {self.key_type} alone, and this one "
                    f"has {', '.join(f'{each.name} {each.type}' for each in which.schema)}."
                )
            these = which.distinct(name="among these")
            return these.join(self.ids, ID, how="semi", name="among")
        several = isinstance(which, Iterable) and not isinstance(which, str | bytes)
        ids: list[Key] = list(which) if several else [which]  # type: ignore[arg-type, list-item]
        if not ids:
            raise FlowError(f"vertices of {self} were to be named, and no id was given.")
        wanted = self._named_vertices.filter(col(ID).is_in(*ids), name="among these")
        return wanted.distinct(name="among")

    @cached_property
    def _named_vertices(self) -> Table:
        """All vertices, as often as something names them."""
        links = self.links
        ends = links.select(name="ids: sources", id=col(SRC))
        if self.directed:  # otherwise every end is a source
            ends = ends.union(links.select(name="ids: targets", id=col(DST)), name="ids: ends")
        return ends if self.given is None else ends.union(self.given, name="ids: all")

    @cached_property
    def given(self) -> Table | None:
        """The ``id`` of each vertex as often as it was given, if vertices were given."""
        if self._given is None:
            return None
        ids = self._given.select(ID, name="ids: given")
        return ids.map_batches(partial(_checked, (ID,)), name="ids: are there")

    @cached_property
    def vertices(self) -> Table:
        """All vertices with their properties, which are null where a vertex was not given."""
        return (
            self.ids if self._given is None else self.ids.join(self._given, ID, how="left", name="vertices")
        )

    @cached_property
    def neighbours(self) -> Table:
        """Who is beside whom: ``src`` and ``dst``, both ways, each pair once, nobody beside itself."""
        links = self.undirected().links
        beside = links.filter(col(SRC) != col(DST), name="neighbours: between two")
        return beside.select(SRC, DST, name="neighbours: ends").distinct(name="neighbours")

    @property
    def only_appends(self) -> bool:
        """Whether edges and vertices are only added, and never taken away."""
        return self.edges.only_appends and (self._given is None or self._given.only_appends)

    def undirected(self) -> "Graph":
        """The same graph with every edge in both directions."""
        return self if not self.directed else self._with(self.edges, directed=False)

    def reversed(self) -> "Graph":
        """The same graph with every edge the other way round."""
        if not self.directed:
            return self
        return self._with(self.edges.rename(**_OTHER_END), directed=True)

    @property
    def needs_numbers(self) -> bool:
        """Whether operators in arrays can take it only ``in_numbers``: its ids are no longs."""
        return self.key_type != pa.int64() and can_be_numbered(self.key_type) and not self.edges.loops

    @cached_property
    def in_numbers(self) -> "Graph":
        """The same graph, in which each vertex has a number for its id."""
        links = self._one_way
        for end in (SRC, DST):
            others = [name for name in links.schema.names if name != end]
            beside = links.join(self._numbers, {end: ID}, name=f"numbers: at {end}")
            links = beside.select(*others, name=f"numbers: of {end}", **{end: col(NUMBER)})
        weight = None if self.weight is None else WEIGHT
        ids = self._numbers.select(name="numbers: of vertices", id=col(NUMBER))
        made = Graph(links, ids, weight=weight, directed=self.directed)
        made.__dict__["ids"] = ids  # each is there once already
        return made

    def numbers_among(self, which: Table | Iterable[Key] | Key) -> Table:
        """The vertices that are among these, as ``id``, with the ids that they have ``in_numbers``."""
        there = self.among(which).join(self._numbers, ID, name="numbers: among")
        return there.select(name="numbers: among these", id=col(NUMBER))

    def by_id(self, found: Table) -> Table:
        """What was found ``in_numbers``, with the ids of vertices for their numbers."""
        others = [name for name in found.schema.names if name != ID]
        named = found.rename(number=ID).join(self._numbers, NUMBER, name="numbers: back to ids")
        return named.select(ID, *others, name="numbers: by id")

    @cached_property
    def _numbers(self) -> Table:
        return numbers_of(self.ids, name="numbers")

    @property
    def is_for_arrays(self) -> bool:
        """Whether operators in arrays can take it: its ids are longs, and it stands in no loop."""
        return bool(self.key_type == pa.int64() and not self.edges.loops)

    @property
    def key_type(self) -> pa.DataType:
        """The type of the ids."""
        return self.edges.schema.field(SRC).type

    def _with(self, edges: Table, *, directed: bool) -> "Graph":
        made = Graph(edges, self._given, weight=self.weight, directed=directed)
        if "ids" in self.__dict__:
            made.__dict__["ids"] = self.ids  # the same vertices, which need not be worked out twice
        return made

    def _check(self, weight: str | None) -> None:
        """Ids are of one type, and weights are numbers."""
        types = {f"edges' '{end}'": self.edges.schema.field(end).type for end in (SRC, DST)}
        if self._given is not None:
            types[f"vertices' '{ID}'"] = self._given.schema.field(ID).type
        if len(set(types.values())) > 1:
            found = ", ".join(f"{name} {type_}" for name, type_ in types.items())
            raise SchemaError(f"a graph needs ids of one type, and was given {found}. Cast them to one.")
        if weight is None:
            return
        if weight not in self.edges.schema.names:
            raise SchemaError(
                f"a graph's weight is a column of its edges, and '{weight}' is none; there are "
                f"{', '.join(self.edges.schema.names)}."
            )
        type_ = self.edges.schema.field(weight).type
        if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
            raise SchemaError(
                f"a graph's weight is a number, and '{weight}' is {type_}. Cast it to long or double."
            )

    def __str__(self) -> str:
        return f"{'directed' if self.directed else 'undirected'} graph of {self.edges}"


_OTHER_END: Final = {SRC: DST, DST: SRC}


def _table(what: str, given: Table | Stream) -> Table:
    if isinstance(given, Stream):
        return given.running(name=what)
    if not isinstance(given, Table):
        raise FlowError(f"a graph needs a table of {what}, and was given {type(given).__name__}.")
    return given


def _named(what: str, table: Table, names: Mapping[str, str]) -> Table:
    """The table with its ends and ids under the names that they have in this package."""
    for wanted, name in names.items():
        if name not in table.schema.names:
            raise SchemaError(
                f"a graph's {what} need the column '{name}'; there are {', '.join(table.schema.names)}. "
                f"Name the one that it is with {wanted}=."
            )
    others = {wanted: name for wanted, name in names.items() if wanted != name}
    for wanted in others:
        if wanted in table.schema.names and wanted not in names.values():
            raise SchemaError(f"a graph's {what} have a column '{wanted}' that is no {wanted}. Rename it.")
    return table.rename(**others) if others else table


def _checked(columns: tuple[str, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they are, none of which may leave a vertex open."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            raise SchemaError(
                f"a graph's '{name}' must name a vertex in every row, and is null in {column.null_count} of "
                f"{batch.num_rows} rows. Filter such rows out, or give the vertex an id."
            )
    return batch
