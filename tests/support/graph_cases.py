"""Every public algorithm of ``pointstamp.graphs`` with its parameters, and the oracle of each, for stories.

``CASES`` has the public names; a name may have several cases, one for each way in which it can be called.
``check_story`` runs a flow with some cases over a story, saves it on the way and resumes on other numbers of
workers, and compares every table with its oracle after every epoch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp import graphs
from support import graph_oracles as oracles
from support.graph_oracles import Whole
from support.graph_stories import NAN, PALETTES, StoryEpoch, after, place_of, rows_of, schemas_of
from support.journeys import Journey

Found = Iterable[tuple[Any, ...]]
Rows = Counter[tuple[Any, ...]]
NEAR = 1e-6
"""How near ranks must be: their tolerance is 1e-8, relative to PageRank before scaling."""


@dataclass(frozen=True)
class StoryInputs:
    """What the cases of a flow are made of."""

    graph: graphs.Graph
    coloured: graphs.Graph
    """The same graph, whose vertices have the property ``colour``."""
    sources: ps.Table
    ids: list[Any]
    """The least and the greatest id of the type."""


@dataclass(frozen=True)
class Case:
    """One way to call an algorithm, and what it must give for a graph."""

    build: Callable[[StoryInputs], ps.Table | ps.Stream]
    oracle: Callable[[Whole], Found]
    ids: tuple[str, ...] = ("id",)
    """The columns of ids."""
    is_near: bool = False
    """Whether the last column is a float that may differ a little."""
    grows: bool = False
    """Whether it takes insertions only."""
    sources: tuple[int, ...] | None = None
    """Where the sources stand among the ids of the type, if they are not those of the table."""
    check: Callable[[Whole, Rows], None] | None = None
    """What must be true of the rows, where several answers are right."""


# Oracles that the libraries do not have.


def _links(whole: Whole) -> list[tuple[int, int]]:
    """The edges as steps: without directions each leads both ways, a loop at a vertex once."""
    back = [] if whole.directed else [(b, a) for a, b, _ in whole.edges if a != b]
    return [(a, b) for a, b, _ in whole.edges] + back


def ranks(whole: Whole, *, damping: float, sums_to: str | None, personalised: bool) -> Found:
    """By a direct solution of the equations."""
    place = {vertex: number for number, vertex in enumerate(whole.vertices)}
    shares = np.zeros((len(place), len(place)))
    links = _links(whole)
    out = Counter(src for src, _ in links)
    for src, dst in links:
        shares[place[dst], place[src]] += damping / out[src]
    resets = [(1 - damping) * (not personalised or vertex in whole.sources) for vertex in whole.vertices]
    exact = np.linalg.solve(np.identity(len(place)) - shares, np.array(resets)) if place else np.empty(0)
    if sums_to is not None and exact.sum() > 0:
        exact *= (1 if sums_to == "one" else len(place)) / exact.sum()
    return zip(whole.vertices, exact.tolist(), strict=True)


def triplets(whole: Whole) -> Found:
    """Every edge with the colours of its ends, for each time that these were given."""
    given = Counter(whole.given)
    for a, b, length in whole.edges:
        for one in [a % 3] * given[a] or [None]:
            for other in [b % 3] * given[b] or [None]:
                yield a, b, length, one, other


def messages(whole: Whole) -> Found:
    """To the target the length of the edge, to the source ten times that: the sum and the number."""
    sent: dict[int, list[int]] = {}
    for a, b, length in whole.edges:
        sent.setdefault(b, []).append(length)
        sent.setdefault(a, []).append(10 * length)
    return ((vertex, sum(come), len(come)) for vertex, come in sent.items())


def two_rounds(whole: Whole) -> Found:
    """Twice, every vertex adds to its number those of the sources of edges to it."""
    numbers = dict.fromkeys(whole.vertices, 1)
    for _ in range(2):
        before = dict(numbers)
        for a, b, _ in whole.edges:
            numbers[b] += before[a]
    return numbers.items()


def levels_in_rounds(whole: Whole) -> Found:
    """How many edges away the nearest source is, 99 where none leads."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(whole.vertices)
    graph.add_edges_from((a, b) for a, b, _ in whole.edges)
    found = dict.fromkeys(whole.vertices, 99)
    for source in whole.present:
        for vertex, level in nx.single_source_shortest_path_length(graph, source).items():
            found[vertex] = min(found[vertex], level)
    return found.items()


def motif(whole: Whole) -> Found:
    """(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)."""
    steps = [(a, b, k) for a, b, k in whole.edges]
    steps += [] if whole.directed else [(b, a, k) for a, b, k in whole.edges if a != b]
    there = {(a, b) for a, b, _ in steps}
    for a, b, length in steps:
        for from_, c, _ in steps:
            if from_ == b and (c, a) not in there:
                yield a, a, b, length, b, c


def loops_and_vertices(whole: Whole) -> Found:
    """(a)-[]->(a); (d)."""
    return ((a, d) for a, b, _ in whole.edges if a == b for d in whole.vertices)


def components_of_edges(whole: Whole) -> Found:
    """Components of the ends of edges."""
    return oracles.wcc(replace(whole, vertices=sorted({end for edge in whole.edges for end in edge[:2]})))


def check_matching(whole: Whole, rows: Rows) -> None:
    """Any maximal matching is right here; another test says which one it must be for numbers and texts."""
    assert max(rows.values(), default=1) == 1
    assert all(a < b for a, b in rows)
    assert nx.is_maximal_matching(whole.simple(), set(rows))


def check_numbers(whole: Whole, rows: Rows) -> None:
    """Every vertex has a number, and no two have the same."""
    assert sorted(vertex for _, vertex in rows.elements()) == whole.vertices
    assert len({number for number, _ in rows}) == len(whole.vertices), rows


def check_ordered_numbers(whole: Whole, rows: Rows) -> None:
    """Besides, the lesser vertex has the lesser number."""
    check_numbers(whole, rows)
    assert [vertex for _, vertex in sorted(rows)] == whole.vertices


# The cases.


def _ranked(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - as pagerank takes them
    return {"tolerance": 1e-8, **options}


def _of_graph(algorithm: Callable[[graphs.Graph], ps.Table], *oracle: Any, **options: Any) -> Case:  # noqa: ANN401
    return Case(lambda given: algorithm(given.graph), *oracle, **options)


def _searches(
    name: str,
    algorithm: Callable[..., ps.Table],
    oracle: Callable[[Whole], Found],
    ids: tuple[str, ...] = ("id",),
) -> dict[str, Case]:
    return {
        f"{name} from a table": Case(lambda given: algorithm(given.graph, given.sources), oracle, ids),
        f"{name} from ids": Case(
            lambda given: algorithm(given.graph, given.ids), oracle, ids, sources=(0, -1)
        ),
        f"{name} from an id": Case(
            lambda given: algorithm(given.graph, given.ids[1]), oracle, ids, sources=(-1,)
        ),
    }


def _personalised(**options: Any) -> Case:  # noqa: ANN401 - as personalised_pagerank takes them
    settings = {"damping": 0.85, "sums_to": "one", **options}
    return Case(
        lambda given: graphs.personalised_pagerank(given.graph, given.sources, **_ranked(**options)),
        partial(ranks, personalised=True, **settings),
        is_near=True,
    )


def _pagerank(**options: Any) -> Case:  # noqa: ANN401 - as pagerank takes them
    settings = {"damping": 0.85, "sums_to": "one", **options}
    return Case(
        lambda given: graphs.pagerank(given.graph, **_ranked(**options)),
        partial(ranks, personalised=False, **settings),
        is_near=True,
    )


def _levels(given: StoryInputs) -> ps.Table:
    """Levels by a program, whose vertices know whether they are sources."""
    own = given.sources.distinct().select("id", source=ps.lit(1, "long"))
    return graphs.pregel(
        graphs.Graph(given.graph.edges, given.graph.ids.join(own, "id", how="left")),
        start={"level": ps.when(ps.col("source") == 1, 0).otherwise(99)},
        to_dst=ps.col("src_level") + 1,
        aggregates={"heard": ps.min("msg")},
        update={"level": ps.functions.least("level", "heard")},
    )


def _weighted(graph: graphs.Graph, landmarks: Any) -> ps.Table:  # noqa: ANN401 - ids or a table
    return graphs.shortest_paths(graph, landmarks, weighted=True)


_COMPONENT, _PAIR = ("id", "component"), ("src", "dst")
_PATHS = ("id", "landmark")

CASES: dict[str, dict[str, Case]] = {
    "aggregate_messages": {
        "messages both ways": Case(
            lambda given: graphs.aggregate_messages(
                given.graph,
                to_src={"msg": ps.col("km") * 10},
                to_dst=ps.col("km"),
                total=ps.sum("msg"),
                aggregates={"n": ps.count()},
            ).select("id", "total", "n"),
            messages,
        )
    },
    "bfs": _searches("bfs", graphs.bfs, oracles.bfs),
    "cdlp": {
        f"cdlp in {rounds} rounds": Case(
            lambda given, rounds=rounds: graphs.cdlp(given.graph, rounds=rounds),  # type: ignore[misc]
            partial(oracles.cdlp, rounds=rounds),
            ("id", "label"),
        )
        for rounds in (0, 1, 4)
    },
    "connected_components": {
        "connected components": Case(
            lambda given: graphs.connected_components(given.graph.edges),
            components_of_edges,
            ("vertex", "component"),
            grows=True,
        )
    },
    "degrees": {"degrees": _of_graph(graphs.degrees, oracles.degrees)},
    "find": {
        "motif": Case(
            lambda given: graphs.find(given.graph, "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)"),
            motif,
            ("a.id", "e.src", "e.dst", "b.id", "c.id"),
        ),
        "motif of loops": Case(
            lambda given: graphs.find(given.graph, "(a)-[]->(a); (d)"), loops_and_vertices, ("a.id", "d.id")
        ),
    },
    "k_core": {"k-core": _of_graph(graphs.k_core, oracles.k_core)},
    "lcc": {"lcc": _of_graph(graphs.lcc, oracles.lcc, is_near=True)},
    "maximal_matching": {
        "matching": _of_graph(graphs.maximal_matching, lambda _: (), _PAIR, check=check_matching)
    },
    "minimum_spanning_forest": {
        "forest": _of_graph(graphs.minimum_spanning_forest, oracles.minimum_spanning_forest, _PAIR)
    },
    "pagerank": {
        "pagerank": _pagerank(),
        "pagerank by the formula": _pagerank(sums_to=None, damping=0.5),
        "pagerank for the number of vertices": _pagerank(sums_to="vertices"),
    },
    "personalised_pagerank": {
        "ranks from sources": _personalised(),
        "ranks from sources by the formula": _personalised(sums_to=None, damping=0.5),
    },
    "pregel": {
        "program in two rounds": Case(
            lambda given: graphs.pregel(
                given.graph,
                start={"n": ps.lit(1, "long")},
                to_dst=ps.col("src_n"),
                aggregates={"come": ps.sum("msg")},
                update={"n": ps.col("n") + ps.functions.coalesce("come", ps.lit(0, "long"))},
                rounds=2,
            ),
            two_rounds,
        ),
        "program to its end": Case(_levels, levels_in_rounds),
    },
    "reachable": _searches("reachable", graphs.reachable, oracles.reachable),
    "scc": {"scc": _of_graph(graphs.scc, oracles.scc, _COMPONENT)},
    "shortest_paths": {
        **_searches("paths", graphs.shortest_paths, oracles.shortest_paths, _PATHS),
        **_searches("weighted paths", _weighted, oracles.weighted_paths, _PATHS),
    },
    "sssp": _searches("sssp", graphs.sssp, oracles.sssp),
    "topological_levels": {"levels": _of_graph(graphs.topological_levels, oracles.topological_levels)},
    "triangle_count": {"triangle count": _of_graph(graphs.triangle_count, oracles.triangle_count, ())},
    "triangles": {"triangles": _of_graph(graphs.triangles, oracles.triangles)},
    "triplets": {
        "triplets": Case(
            lambda given: graphs.triplets(given.coloured).select(
                "src", "dst", "km", "src_colour", "dst_colour"
            ),
            triplets,
            _PAIR,
        )
    },
    "wcc": {
        "wcc": _of_graph(graphs.wcc, oracles.wcc, _COMPONENT),
        "wcc of a graph that grows": _of_graph(graphs.wcc, oracles.wcc, _COMPONENT, grows=True),
    },
}

NUMBERS: dict[str, Case] = {
    "numbers": Case(lambda given: given.graph.numbers, lambda _: (), check=check_numbers),
    "numbers in order": Case(
        lambda given: given.graph.ordered_numbers, lambda _: (), check=check_ordered_numbers
    ),
}
"""The numbers that vertices have for operators in arrays."""

ALL_CASES: dict[str, Case] = {
    name: case for cases in (*CASES.values(), NUMBERS) for name, case in cases.items()
}


def story_flow(names: Sequence[str], key: str, *, directed: bool, grows: bool = False) -> ps.Dataflow:
    """A flow with an output for each case, over edges, vertices and sources with ids of a type."""
    flow = ps.Dataflow("story")
    weight: dict[str, Any] = {} if grows else {"weight": "w"}
    edges, vertices, sources = (
        flow.table(name, schema, **weight) for name, schema in schemas_of(key).items()
    )
    edges = edges.select("src", "dst", "km")
    given = StoryInputs(
        graphs.Graph(edges, vertices.select("id"), weight="km", directed=directed),
        graphs.Graph(edges, vertices.select("id", "colour"), weight="km", directed=directed),
        sources.select("id"),
        [PALETTES[key][0], PALETTES[key][-1]],
    )
    for name in names:
        flow.output(name, ALL_CASES[name].build(given))
    return flow


def check_story(
    names: Sequence[str],
    story: Sequence[StoryEpoch],
    key: str,
    *,
    directed: bool = True,
    route: Sequence[int] = (1,),
    seed: int = 0,
) -> None:
    """AssertionError where a table is not what its oracle says after some epoch.

    The flow runs on ``route[0]`` workers, and resumes on the next number of them after every second epoch,
    round and round; with one number in the route it is never saved.
    """
    grows = any(ALL_CASES[name].grows for name in names)
    assert not grows or all(ALL_CASES[name].grows for name in names)
    if grows:
        story = [epoch.only_insertions() for epoch in story]
    places = range(len(PALETTES[key]))
    plan = story_flow(names, key, directed=directed, grows=grows).plan
    tables: dict[str, Rows] = {name: Counter() for name in names}
    with Journey(plan, route[0]) as run:
        for number, (edges, vertices, sources) in enumerate(after(story)):
            data = rows_of(story[number], key, seed + number)
            run.next_epoch({name: table.to_batches() for name, table in data.items()})
            known = sorted(set(vertices) | {end for edge in edges for end in edge[:2]})
            whole = Whole(known, edges, directed, sorted(set(sources)), vertices)
            for name in names:
                case = ALL_CASES[name]
                _take_in(tables[name], run.results.get((name, number)))
                rows = _in_places(tables[name], plan.output_schemas()[name].names, case, key)
                seen = whole
                if case.sources is not None:
                    seen = replace(whole, sources=[places[at] for at in case.sources])
                _compare(f"{name} of {key}, epoch {number}, {seen}", case, seen, rows)
            if len(route) > 1:
                run.save(changes_only=number % 3 != 0)
                if number % 2:
                    run.go_on(route[(number + 1) // 2 % len(route)])
        run.finish()


def _take_in(table: Rows, changes: pa.Table | None) -> None:
    """Add the rows of an epoch to a table, in which no row may be there less than never."""
    for row in [] if changes is None else changes.to_pylist():
        by = row.pop("diff", None)
        if by is None:  # a stream in which the newest row of a vertex is the one that holds
            for old in [each for each in table if each[0] == row["vertex"]]:
                del table[old]
        table[tuple(map(_plain, row.values()))] += 1 if by is None else by
    for each in [row for row, times in table.items() if times == 0]:
        del table[each]
    assert min(table.values(), default=1) > 0, f"a row is there less than never: {table}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value
    """The value, or the one NaN that is found in a dictionary."""
    return NAN if value != value else value


def _in_places(table: Rows, names: Sequence[str], case: Case, key: str) -> Rows:
    names = [name for name in names if name != "diff"]
    made: Rows = Counter()
    for row, times in table.items():
        columns = zip(names, row, strict=True)
        made[tuple(place_of(value, key) if name in case.ids else value for name, value in columns)] += times
    return made


def _compare(where: str, case: Case, whole: Whole, rows: Rows) -> None:
    if case.check is not None:
        case.check(whole, rows)
        return
    wanted: Rows = Counter(case.oracle(whole))
    if not case.is_near:
        assert rows == wanted, f"{where}: found too much {rows - wanted}, too little {wanted - rows}"
        return
    assert max(rows.values(), default=1) == 1, where
    found, exact = _values(rows), _values(wanted)
    assert found.keys() == exact.keys(), where
    for row, value in exact.items():
        assert abs(found[row] - value) <= NEAR * max(1, abs(value)), (where, row, found[row], value)
        assert value != 0 or found[row] == 0 or any(exact.values()), (where, row, found[row])


def _values(rows: Rows) -> Mapping[tuple[Any, ...], float]:
    return {row[:-1]: row[-1] for row in rows}
