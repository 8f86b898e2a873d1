"""A graph: tables of edges and vertices, as all algorithms of this package take it.

    edges = flow.table("edges", "src long, dst long, km double, w long", weight="w")
    graph = graphs.Graph(edges, weight="km", directed=False)
    flow.output("levels", graphs.bfs(graph, source=1))

A graph is a view of tables, so it grows and shrinks with them: its vertices are those that were given and all
ends of edges, and a vertex that was only the end of an edge goes when its last edge goes. Ids are of any type
that can be a key. An edge may be there several times and may lead from a vertex to itself; each algorithm
says what it makes of that.

Everything is computed on demand: a graph that is only traversed never builds its vertices.
"""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Final

import pyarrow as pa

from pointstamp import Stream, Table, col, functions, lit
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.arrays.numbering import (
    NUMBER,
    can_be_numbered,
    numbers_of,
    ordered_numbers_of,
    with_ids,
    with_numbers,
)
from pointstamp.graphs.arrays.vertices import named_by
from pointstamp.graphs.validation import Key, check_one_type, check_weight, given_table, named, with_names

SRC: Final = "src"
DST: Final = "dst"
ID: Final = "id"
WEIGHT: Final = "weight"


class Graph:
    """A graph: vertices and edges with their properties, as tables that change from epoch to epoch.

    Args:
        edges: A table, or a stream of edges that are only added.
        vertices (Table | Stream, default None): The vertices with their properties. Ends of edges are
            vertices without being listed here.
        src (str, default "src"): The column of the source of an edge.
        dst (str, default "dst"): The column of the destination of an edge.
        id (str, default "id"): The column of the id of a vertex.
        weight (str, default None): A numeric column of edges.
        directed (bool, default True): Whether edges have a direction.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.wcc(graph))
        >>> edges = pa.table({"src": [1, 2], "dst": [2, 3]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'component': [1, 1, 1]}

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
        self.edges: Final = with_names("edges", given_table("edges", edges), {SRC: src, DST: dst})
        """The edges as they were given, with ``src``, ``dst`` and all their properties."""
        self.weight: Final = weight
        """The column of weights among the properties of edges, if there is one."""
        self.directed: Final = directed
        """Whether an edge leads from ``src`` to ``dst`` only."""
        self._given: Final = (
            None if vertices is None else with_names("vertices", given_table("vertices", vertices), {ID: id})
        )
        # The graph that this one was made of, whose vertices have the same numbers.
        self._origin: Graph | None = None
        # The same graph by the check that its edges go through.
        self._after_check: dict[str, Graph] = {}
        ends = {f"edges' '{end}'": self.edges.schema.field(end).type for end in (SRC, DST)}
        given = {} if self._given is None else {f"vertices' '{ID}'": self._given.schema.field(ID).type}
        check_one_type(ends | given)
        check_weight(self.edges.schema, weight)

    @cached_property
    def links(self) -> Table:
        """The edges as steps: ``src``, ``dst`` and an optional ``weight``, with multiplicities.

        Of a graph that is not directed every edge is here in both directions, a loop at a vertex once.
        """
        links, ends = self._one_way, self._one_way.schema.names
        if self.directed:
            return links
        back = (
            links.filter(col(SRC) != col(DST))
            .named("links: between two")
            .select(**{each: col(_OTHER_END.get(each, each)) for each in ends})
            .named("links: back")
        )
        return links.union(back).named("links: both ways")

    @cached_property
    def _one_way(self) -> Table:
        """The edges as they were given, as steps, none of which may leave a vertex open."""
        weights = {} if self.weight is None else {WEIGHT: col(self.weight)}
        there = self.edges.select(SRC, DST, **weights).named("links")
        return there.map_batches(partial(_checked, (SRC, DST))).named("links: ends are there")

    @cached_property
    def pairs(self) -> Table:
        """The undirected edges, ``src`` being the lesser end, with weights and multiplicities.

        A loop at a vertex is a pair of it with itself.
        """
        if not self.directed:
            return self.links.filter(col(SRC) <= col(DST)).named("pairs")
        ends = {SRC: functions.least(col(SRC), col(DST)), DST: functions.greatest(col(SRC), col(DST))}
        weights = [] if self.weight is None else [WEIGHT]
        return self.links.select(*weights, **ends).named("pairs")

    @cached_property
    def link_changes(self) -> Stream:
        """The changes of links, without weights: each changed link once per epoch, with ``diff``."""
        return self.links.select(SRC, DST).named("links: ends").changes().named("links: changes")

    @cached_property
    def ids(self) -> Table:
        """All vertices, each once: the column ``id``."""
        if self.is_for_arrays:
            return self.with_given(named_by(self.link_changes, name="ids: ends"))
        return self._named_vertices.distinct().named("ids")

    def with_given(self, named: Table) -> Table:
        """Each ``id`` of these and of the vertices that were given, once."""
        all_of_them = named if self.given is None else named.union(self.given).named("ids: all")
        return all_of_them.distinct().named("ids")

    def among(self, which: Table | Iterable[Key] | Key) -> Table:
        """The vertices that are among these, as ``id``: of a table with that column, of several ids, or one.

        An id that is not a vertex of the graph is absent until it becomes one.
        """
        if isinstance(which, Table):
            if which.schema.names != [ID] or which.schema.field(ID).type != self.key_type:
                raise SchemaError(
                    f"vertices of {self} must be a table of only '{ID}' {self.key_type}, got "
                    f"{', '.join(f'{each.name} {each.type}' for each in which.schema)}. Select that "
                    "column."
                )
            these = which.distinct().named("among these")
            return these.join(self.ids, ID, how="semi").named("among")
        if isinstance(which, Stream | Graph):
            raise FlowError(
                f"vertices of {self}: they must be ids or a table of only '{ID}', got "
                f"{type(which).__name__}. Give ids, or the table of a stream with to_table()."
            )
        ids = named(which)
        if not ids:
            raise FlowError(f"vertices of {self}: the list of ids is empty. Give at least one id.")
        # Without its type a number is a long, which the greatest ids of this type are not.
        values = [lit(each, self.key_type) for each in ids] if self.key_type == pa.uint64() else ids
        wanted = self._named_vertices.filter(col(ID).is_in(*values)).named("among these")
        return wanted.distinct().named("among")

    @cached_property
    def _named_vertices(self) -> Table:
        """All vertices, as often as something names them."""
        links = self.links
        ends = links.select(id=col(SRC)).named("ids: sources")
        if self.directed:  # otherwise every end is a source
            ends = ends.union(links.select(id=col(DST)).named("ids: targets")).named("ids: ends")
        return ends if self.given is None else ends.union(self.given).named("ids: all")

    @cached_property
    def given(self) -> Table | None:
        """The ``id`` of each vertex as often as it was given, if vertices were given."""
        if self._given is None:
            return None
        ids = self._given.select(ID).named("ids: given")
        return ids.map_batches(partial(_checked, (ID,))).named("ids: are there")

    @cached_property
    def vertices(self) -> Table:
        """All vertices with their properties, which are null where a vertex was not given.

        Without properties each vertex is here once; with them as often as it was given.
        """
        if self._given is None or self._given.schema.names == [ID]:
            return self.ids
        return self.ids.join(self._given, ID, how="left").named("vertices")

    @cached_property
    def neighbours(self) -> Table:
        """The adjacency: ``src`` and ``dst`` in both directions, each pair once, without self-loops."""
        links = self.undirected().links
        beside = links.filter(col(SRC) != col(DST)).named("neighbours: between two")
        return beside.select(SRC, DST).named("neighbours: ends").distinct().named("neighbours")

    @property
    def is_append_only(self) -> bool:
        """Whether edges and vertices are only inserted."""
        return self.edges.is_append_only and (self._given is None or self._given.is_append_only)

    def undirected(self) -> "Graph":
        """Return the graph with every edge in both directions."""
        return self if not self.directed else self._with(self.edges, directed=False)

    def reversed(self) -> "Graph":
        """Return the graph with all edges reversed."""
        if not self.directed:
            return self
        return self._with(self.edges.rename({old: new for new, old in _OTHER_END.items()}), directed=True)

    def checked(self, check: Callable[[pa.RecordBatch], pa.RecordBatch], *, name: str) -> "Graph":
        """Return the graph with a check of its edges, batch by batch."""
        if name not in self._after_check:
            edges = self.edges.map_batches(check).named(name)
            self._after_check[name] = self._with(edges, directed=self.directed)
        return self._after_check[name]

    @property
    def needs_numbers(self) -> bool:
        """Whether operators in arrays can take it only in numbers: its ids are no longs."""
        return self.key_type != pa.int64() and can_be_numbered(self.key_type) and not self.edges.loops

    @cached_property
    def in_numbers(self) -> "Graph":
        """The same graph, in which each vertex has a number for its id."""
        return self._numbered(self.numbers)

    @cached_property
    def in_order(self) -> "Graph":
        """The same graph, in which each vertex has a number for its id, and the lesser id the lesser one."""
        return self._numbered(self.ordered_numbers)

    def numbers_among(self, which: Table | Iterable[Key] | Key) -> Table:
        """The vertices that are among these, as ``id``, with the ids that they have ``in_numbers``."""
        there = self.among(which).join(self.numbers, ID).named("numbers: among")
        return there.select(id=col(NUMBER)).named("numbers: among these")

    def by_id(self, found: Table) -> Table:
        """Return a result of ``in_numbers`` with ids in place of numbers."""
        return with_ids(found, self.numbers, ID)

    def by_ordered_id(self, found: Table, *columns: str) -> Table:
        """Return a result of ``in_order`` with ids in place of the numbers in some columns."""
        return with_ids(found, self.ordered_numbers, *columns)

    @cached_property
    def numbers(self) -> Table:
        """``number`` and ``id`` of every vertex."""
        return numbers_of(self.ids, name="numbers") if self._origin is None else self._origin.numbers

    @cached_property
    def ordered_numbers(self) -> Table:
        """``number`` and ``id`` of every vertex; the lesser id has the lesser number."""
        if self._origin is not None:
            return self._origin.ordered_numbers
        return ordered_numbers_of(self.ids, name="numbers in order")

    def _numbered(self, numbers: Table) -> "Graph":
        ids = numbers.select(id=col(NUMBER)).named("numbers: of vertices")
        links = with_numbers(self._one_way, numbers, SRC, DST)
        weight = None if self.weight is None else WEIGHT
        made = Graph(links, ids, weight=weight, directed=self.directed)
        made.__dict__["ids"] = ids  # each is there once already
        return made

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
        made._origin = self
        if "ids" in self.__dict__:
            made.__dict__["ids"] = self.ids  # the same vertices, which need not be computed twice
        return made

    def __str__(self) -> str:
        return f"{'directed' if self.directed else 'undirected'} graph of {self.edges}"


_OTHER_END: Final = {SRC: DST, DST: SRC}


def _checked(columns: tuple[str, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they are, none of which may leave a vertex open."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            raise SchemaError(
                f"Graph: '{name}' must name a vertex in every row, got null in {column.null_count} of "
                f"{batch.num_rows} rows. Filter such rows out, or give the vertex an id."
            )
    return batch


def check_graph(who: str, given: object) -> None:
    """Reject what is not a graph, such as the table of its edges."""
    if not isinstance(given, Graph):
        raise FlowError(
            f"{who}: it needs a Graph, got {type(given).__name__}. Make one of a table of edges with "
            "ps.graphs.Graph(edges)."
        )
