"""GraphFrame on Spark: the examples of GraphFrames' user guide, written again, with their answers.

The graph of friends is the guide's. What it leaves to chance (labels, ties) is compared as what it means.
"""

from collections import defaultdict
from typing import Any

import networkx as nx
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as the guide has it

from pointstamp.errors import PointstampError
from pointstamp.graphs import AggregateMessages as AM  # noqa: N817 - as the guide has it
from pointstamp.graphs import GraphFrame, Pregel

pytestmark = pytest.mark.spark

PEOPLE = [
    ("a", "Alice", 34),
    ("b", "Bob", 36),
    ("c", "Charlie", 30),
    ("d", "David", 29),
    ("e", "Esther", 32),
    ("f", "Fanny", 36),
    ("g", "Gabby", 60),
]
RELATIONS = [
    ("a", "b", "friend"),
    ("b", "c", "follow"),
    ("c", "b", "follow"),
    ("f", "c", "follow"),
    ("e", "f", "follow"),
    ("e", "d", "friend"),
    ("d", "a", "friend"),
    ("a", "e", "friend"),
]


@pytest.fixture(scope="module")
def friends(spark: SparkSession) -> GraphFrame:
    vertices = spark.createDataFrame(PEOPLE, ["id", "name", "age"])
    edges = spark.createDataFrame(RELATIONS, ["src", "dst", "relationship"])
    return GraphFrame(vertices, edges)


def by_id(frame: DataFrame, column: str) -> dict[Any, Any]:
    return {row["id"]: row[column] for row in frame.collect()}


def groups(labels: dict[str, Any]) -> set[frozenset[str]]:
    """Who has the same label as whom."""
    made = defaultdict(set)
    for vertex, label in labels.items():
        assert isinstance(label, int)
        made[label].add(vertex)
    return {frozenset(each) for each in made.values()}


@pytest.mark.long
def test_degrees_parts_and_triplets_are_left_to_spark(friends: GraphFrame) -> None:
    assert by_id(friends.inDegrees, "inDegree") == {"a": 1, "b": 2, "c": 2, "d": 1, "e": 1, "f": 1}
    assert by_id(friends.degrees, "degree")["e"] == 3
    part = friends.filterEdges("relationship = 'friend'").filterVertices("age > 30").dropIsolatedVertices()
    assert sorted(row.id for row in part.vertices.collect()) == ["a", "b", "e"]
    assert {(row.src, row.dst) for row in part.edges.collect()} == {("a", "b"), ("a", "e")}
    row = friends.triplets.filter("src.name = 'Fanny'").collect()[0]
    assert (row.edge.relationship, row.dst.name) == ("follow", "Charlie")


def test_messages_are_aggregated_by_sparks_expressions(friends: GraphFrame) -> None:
    ages = friends.aggregateMessages(
        F.sum(AM.msg).alias("summedAges"), sendToSrc=AM.dst["age"], sendToDst=AM.src["age"]
    )
    assert by_id(ages, "summedAges") == {"a": 97, "b": 94, "c": 108, "d": 66, "e": 99, "f": 62}
    texts = friends.aggregateMessages("max(MSG) as most", sendToDst="src.age")
    assert by_id(texts, "most")["b"] == 34
    with pytest.raises(PointstampError, match="Give sendToSrc, sendToDst or both"):
        friends.aggregateMessages("max(MSG)")


def test_motifs_have_structs_for_what_has_a_name(friends: GraphFrame) -> None:
    one_way = friends.find("(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)").filter("a.id != c.id")
    assert one_way.columns == ["a", "e", "b", "c"]
    rows = one_way.collect()
    assert {(row.a.name, row.e.relationship) for row in rows if row.b.name == "Charlie"} == {
        ("Fanny", "follow")
    }
    edges = {(src, dst) for src, dst, _ in RELATIONS}
    assert {(row.a.id, row.b.id, row.c.id) for row in rows} == {
        (a, b, c) for a, b in edges for also, c in edges if also == b and (c, a) not in edges and a != c
    }


@pytest.mark.long
def test_searches_give_all_shortest_paths(friends: GraphFrame) -> None:
    paths = friends.bfs("name = 'Esther'", "age < 32")
    assert paths.columns == ["from", "e0", "to"]
    assert [(row["from"].name, row["e0"].relationship, row["to"].name) for row in paths.collect()] == [
        ("Esther", "friend", "David")
    ]
    longer = friends.bfs(
        fromExpr="name = 'Esther'", toExpr="age < 32", edgeFilter="relationship != 'friend'", maxPathLength=3
    )
    assert longer.columns == ["from", "e0", "v1", "e1", "to"]
    assert [(row["v1"].name, row["to"].name) for row in longer.collect()] == [("Fanny", "Charlie")]


@pytest.mark.long
def test_a_search_may_find_nothing_or_end_where_it_begins(friends: GraphFrame) -> None:
    none = friends.bfs("id = 'g'", "id = 'a'")
    assert (none.columns, none.collect()) == (["from", "to"], [])
    assert friends.bfs("id = 'a'", "id = 'c'", maxPathLength=1).collect() == []
    here = friends.bfs("age = 36", "name = 'Bob'")
    assert [(row["from"].id, row["to"].id) for row in here.collect()] == [("b", "b")]


@pytest.mark.long
def test_components_and_communities_have_numbers_as_labels(friends: GraphFrame) -> None:
    directed = nx.DiGraph([(src, dst) for src, dst, _ in RELATIONS])
    directed.add_node("g")
    weak = friends.connectedComponents()
    assert weak.columns == ["id", "name", "age", "component"]
    assert groups(by_id(weak, "component")) == set(map(frozenset, nx.weakly_connected_components(directed)))
    strong = friends.stronglyConnectedComponents(maxIter=10)
    found = groups(by_id(strong, "component"))
    assert found == set(map(frozenset, nx.strongly_connected_components(directed)))
    labels = by_id(friends.labelPropagation(maxIter=5), "label")
    assert labels.keys() == set("abcdefg")
    assert labels["g"] not in {label for vertex, label in labels.items() if vertex != "g"}


@pytest.mark.long
def test_ranks_add_up_to_the_number_of_vertices(friends: GraphFrame) -> None:
    results = friends.pageRank(resetProbability=0.15, tol=0.0001)
    ranks = by_id(results.vertices, "pagerank")
    directed = nx.DiGraph([(src, dst) for src, dst, _ in RELATIONS])
    directed.add_node("g")
    wanted = nx.pagerank(directed, alpha=0.85, tol=1e-10, max_iter=1000)
    assert ranks == pytest.approx({vertex: 7 * rank for vertex, rank in wanted.items()}, rel=1e-3)
    weights = {(row.src, row.dst): row.weight for row in results.edges.collect()}
    assert weights["a", "b"] == 0.5
    assert weights["b", "c"] == 1.0
    seen = friends.pageRank(resetProbability=0.15, maxIter=10, sourceId="a").vertices
    from_a = nx.pagerank(directed, alpha=0.85, personalization={"a": 1}, tol=1e-10, max_iter=1000)
    assert by_id(seen, "pagerank") == pytest.approx(from_a, abs=1e-4)
    with pytest.raises(PointstampError, match="pageRank: expected either maxIter or tol"):
        friends.pageRank()


def test_ranks_are_seen_from_each_of_several_vertices(friends: GraphFrame) -> None:
    results = friends.parallelPersonalizedPageRank(resetProbability=0.15, sourceIds=["a", "e"], maxIter=10)
    found = by_id(results.vertices, "pageranks")
    directed = nx.DiGraph([(src, dst) for src, dst, _ in RELATIONS])
    directed.add_node("g")
    for place, source in enumerate("ae"):
        wanted = nx.pagerank(directed, alpha=0.85, personalization={source: 1}, tol=1e-10, max_iter=1000)
        assert {vertex: ranks[place] for vertex, ranks in found.items()} == pytest.approx(wanted, abs=1e-4)
    assert {(row.src, row.dst): row.weight for row in results.edges.collect()}["b", "c"] == 1.0
    with pytest.raises(PointstampError, match="sourceIds and maxIter are required"):
        friends.parallelPersonalizedPageRank(sourceIds=[], maxIter=1)


def test_a_vertex_program_goes_in_rounds(spark: SparkSession) -> None:
    links = [(0, 1), (1, 2), (2, 4), (2, 0), (3, 4), (4, 0), (4, 2)]
    edges = spark.createDataFrame(links, "src long, dst long")
    vertices = spark.range(5)
    degrees = GraphFrame(vertices, edges).outDegrees
    program = (
        GraphFrame(degrees, edges)
        .pregel.setMaxIter(5)
        .setCheckpointInterval(2)
        .withVertexColumn("rank", F.lit(1 / 5), F.coalesce(Pregel.msg(), F.lit(0.0)) * 0.85 + 0.15 / 5)
        .sendMsgToDst(Pregel.src("rank") / Pregel.src("outDegree"))
        .aggMsgs(F.sum(Pregel.msg()))
    )
    found = program.run()
    assert found.columns == ["id", "outDegree", "rank"]
    ranks = dict.fromkeys(range(5), 1 / 5)
    for _ in range(5):
        out = {vertex: sum(src == vertex for src, _ in links) for vertex in ranks}
        came = {vertex: sum(ranks[src] / out[src] for src, dst in links if dst == vertex) for vertex in ranks}
        ranks = {vertex: 0.85 * each + 0.15 / 5 for vertex, each in came.items()}
    assert by_id(found, "rank") == pytest.approx(ranks)


def test_a_vertex_program_sends_both_ways_and_ends_when_nothing_is_sent(spark: SparkSession) -> None:
    edges = spark.createDataFrame([(1, 2, 5), (3, 2, 1), (3, 9, 1)], "src long, dst long, km long")
    far = F.lit(1 << 40)
    nearer = F.when(
        Pregel.src("km") + Pregel.edge("km") < Pregel.dst("km"), Pregel.src("km") + Pregel.edge("km")
    )
    back = F.when(
        Pregel.dst("km") + Pregel.edge("km") < Pregel.src("km"), Pregel.dst("km") + Pregel.edge("km")
    )
    program = (
        GraphFrame(spark.createDataFrame([(1,), (2,), (3,), (4,)], "id long"), edges)
        .pregel.setMaxIter(1000)
        .setEarlyStopping(True)
        .withVertexColumn("km", F.when(F.col("id") == 1, 0).otherwise(far), F.least("km", Pregel.msg()))
        .sendMsgToDst(nearer)
        .sendMsgToSrc(back)
        .aggMsgs(F.min(Pregel.msg()))
    )
    assert by_id(program.run(), "km") == {1: 0, 2: 5, 3: 6, 4: 1 << 40}


def test_a_vertex_program_that_lacks_something_says_what(friends: GraphFrame) -> None:
    with pytest.raises(
        PointstampError, match="withVertexColumn, sendMsgToSrc or sendMsgToDst, and aggMsgs are all required"
    ):
        friends.pregel.withVertexColumn("rank", F.lit(1), F.lit(1)).run()
    with pytest.raises(
        PointstampError, match="cannot add 'age', because vertices already have a column of that name"
    ):
        friends.pregel.withVertexColumn("age", F.lit(1), F.lit(1))
    with pytest.raises(PointstampError, match="setMaxIter needs a number of rounds of 1 or more, got 0"):
        friends.pregel.setMaxIter(0)


def test_distances_to_landmarks_are_maps_and_triangles_are_counted(friends: GraphFrame) -> None:
    distances = by_id(friends.shortestPaths(landmarks=["a", "d"]), "distances")
    assert distances["e"] == {"a": 2, "d": 1}
    assert distances["g"] == {}
    counts = friends.triangleCount()
    assert counts.columns == ["count", "id", "name", "age"]
    assert by_id(counts, "count") == {"a": 1, "b": 0, "c": 0, "d": 1, "e": 1, "f": 0, "g": 0}


def test_numbers_stay_what_they_are_and_edges_to_nowhere_are_left_out(spark: SparkSession) -> None:
    vertices = spark.createDataFrame([(5,), (7,), (9,)], "id long")
    edges = spark.createDataFrame([(7, 9), (9, 100)], "src int, dst int")
    assert by_id(GraphFrame(vertices, edges).connectedComponents(), "component") == {5: 5, 7: 7, 9: 7}
    with pytest.raises(PointstampError, match="edges need a column 'src', got from, to"):
        GraphFrame(vertices, edges.toDF("from", "to"))
