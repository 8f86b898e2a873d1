"""Every algorithm under random stories of insertions and deletions, with ids at the limits of every type.

Families, and what only each can find:
- *all*: a public algorithm that has no oracle here.
- *story*: after every epoch of a story (``support.graph_stories``) each table is what its oracle says of the
  graph as it is then, on one to three workers, saved and resumed on other numbers of them on the way. Only
  these find values that mean something in the space of ids, and what is kept of a vertex that has left.
- *broken*: algorithms with one mistake each (``support.broken_graphs``), which the stories must find.
- *saved*: state that is saved as a whole though little has changed.
- *distance*: sums of lengths at the limits of their types.
"""

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp import graphs
from pointstamp.errors import FlowError
from support.broken_graphs import MUTANTS, Mutant
from support.graph_cases import ALL_CASES, CASES, NUMBERS, check_story, story_flow
from support.graph_stories import PALETTES, TYPES, StoryEpoch, random_story
from support.journeys import Journey

ROUTES = ((1,), (2, 3, 1), (3, 1, 2), (1, 3))
SAMPLE = 2
"""So many cases share a flow where time is short, of each type of ids other ones."""


def story_of(key: str, seed: int) -> list[StoryEpoch]:
    return random_story(seed, len(PALETTES[key]))


def _takes(name: str, key: str) -> bool:
    """Whether a case takes ids of a type: one is for whole numbers, and floats get no numbers."""
    if name == "connected components":
        return bool(pa.types.is_signed_integer(TYPES[key]))
    return name not in NUMBERS or not pa.types.is_floating(TYPES[key])


def test_every_public_algorithm_has_an_oracle() -> None:
    algorithms = {name for name in graphs.__all__ if name[0].islower()}
    assert algorithms == CASES.keys()


@pytest.mark.parametrize("number", range(len(ALL_CASES)), ids=list(ALL_CASES))
def test_after_every_epoch_of_a_story_the_oracle_agrees(number: int) -> None:
    name = list(ALL_CASES)[number]
    route = ROUTES[number % len(ROUTES)]
    check_story([name], story_of("long", number), "long", directed=number % 3 > 0, route=route, seed=number)


@pytest.mark.parametrize("key", [key for key in PALETTES if key != "long"])
def test_ids_may_be_of_any_type(key: str) -> None:
    names = [name for name, case in ALL_CASES.items() if _takes(name, key) and not case.grows]
    first = list(PALETTES).index(key)
    chosen = [names[(first + number * len(names) // SAMPLE) % len(names)] for number in range(SAMPLE)]
    check_story(chosen, story_of(key, first), key, directed=first % 2 == 0, route=(2, 1), seed=first)


@pytest.mark.parametrize("seed", range(4))
def test_vertices_may_be_numbered_while_the_number_of_workers_changes(seed: int) -> None:
    route = ((3, 2), (1, 3, 2))[seed % 2]
    check_story(list(NUMBERS), story_of("string", seed), "string", route=route, seed=seed)


def test_a_vertex_that_returns_without_links_after_a_rescaling_has_its_own_label() -> None:
    # It had lost its links and itself in one epoch, and workers that did not own it kept its label of before.
    check_story(["cdlp in 1 rounds"], story_of("long", 103), "long", route=(1, 3), seed=103)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL_CASES)
@pytest.mark.parametrize("key", PALETTES)
def test_after_every_epoch_of_many_stories_the_oracle_agrees(name: str, key: str) -> None:
    if not _takes(name, key):
        return
    for seed in range(100, 104):
        route = ROUTES[seed % len(ROUTES)]
        check_story([name], story_of(key, seed), key, directed=seed % 3 > 0, route=route, seed=seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each.switch.__name__} {each.case} {each.key}")
def test_a_story_finds_the_mistake(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch(monkeypatch)
    for seed in range(8):
        try:
            check_story(
                [mutant.case],
                story_of(mutant.key, seed),
                mutant.key,
                directed=mutant.directed,
                route=mutant.route,
                seed=seed,
            )
        except (AssertionError, ps.errors.PointstampError):
            return
    pytest.fail("no story has found it")


# What is saved.


@pytest.mark.parametrize("key", ["long", "string"])
def test_what_is_saved_of_a_small_change_is_small(key: str) -> None:
    names = [
        "wcc",
        "cdlp in 1 rounds",
        "k-core",
        "triangles",
        "forest",
        "ranks from sources by the formula",
        "bfs from a table",
    ]
    named = int if key == "long" else "v{}".format
    chain = [(named(at), named(at + 1), 1, 1) for at in range(200)]
    columns = ("src", "dst", "km", "w")
    with Journey(story_flow(names, key, directed=True).plan, 2) as run:
        for rows in (chain, [(named(500), named(501), 1, 1)]):
            edges = pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])
            run.next_epoch({"edges": [edges]})
            run.save(changes_only=True)
        saved = {
            (run.plan.nodes[index].name, name): [
                sum(chain[at].table.num_rows for chain in chains) for at in (0, 1)
            ]
            for (index, name), chains in run.saved.items()
        }
        assert sum(before for before, _ in saved.values()) > 2_000
        assert {which: now for which, (_, now) in saved.items() if now > 16} == {}
        run.finish()


# Distances.


def distances(kind: str, *edges: tuple[int, int, float]) -> dict[int, float]:
    flow = ps.Dataflow("far")
    graph = graphs.Graph(flow.table("edges", f"src long, dst long, km {kind}"), weight="km")
    flow.output("found", graphs.sssp(graph, 1))
    rows = [{"src": src, "dst": dst, "km": km} for src, dst, km in edges]
    return {row["id"]: row["distance"] for row in flow.run(edges=[rows]).table("found").to_pylist()}


def test_a_distance_may_be_the_greatest_of_its_type() -> None:
    greatest = (1 << 63) - 1
    assert distances("long", (1, 2, greatest - 1), (2, 3, 1)) == {1: 0, 2: greatest - 1, 3: greatest}
    assert distances("double", (1, 2, float("inf"))) == {1: 0.0, 2: float("inf")}


def test_a_distance_that_exceeds_its_type_is_rejected() -> None:
    with pytest.raises(FlowError, match=r"a distance of 9223372036854775807 \+ 1 does not fit long"):
        distances("long", (1, 2, (1 << 63) - 1), (2, 3, 1))
