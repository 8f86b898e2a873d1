# ruff: noqa: S608 - texts of our own
"""Recursive tables do not depend on how their inputs were cut into epochs, nor on which came first.

Families:
- a trie that is made of the letters of words, what can be reached, and rights that groups and folders give
  each other: rows that come and go in random order;
- schedules: all at once, cut at random, and one input after the other; written with verbs, and in SQL.

After each epoch a table is what plain Python makes of all rows so far, and in the end it is the same table in
each schedule.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp import functions as F  # noqa: N812 - as PySpark's users call it
from support.mutual import INPUTS as RIGHTS
from support.mutual import brute_rights, rights_flow
from support.table_queries import put_out, table_of

Row: TypeAlias = tuple[Any, ...]
Facts: TypeAlias = dict[str, Counter[Row]]
Change: TypeAlias = tuple[str, Row, int]
"""An input, a row of it, and 1 or -1."""


@dataclass(frozen=True)
class Case:
    """A recursive query: its inputs, how it is written, and what it is by brute force."""

    inputs: Mapping[str, pa.Schema]
    rows: Callable[[Random], dict[str, list[Row]]]
    """The rows that an input can have."""
    flows: Mapping[str, Callable[[], ps.Dataflow]]
    expected: Callable[[Facts], dict[str, Counter[Row]]]


def _schema(text: str) -> pa.Schema:
    return ps.Dataflow("types").stream_input("t", f"{text}, w long").schema


def _tables(flow: ps.Dataflow, inputs: Mapping[str, pa.Schema]) -> list[ps.Table]:
    return [flow.table(name, schema, weight="w") for name, schema in inputs.items()]


def _declared(texts: Mapping[str, str]) -> str:
    return "".join(
        f"create table {name} ({text}, w long) tblproperties ('weight' = 'w');\n"
        for name, text in texts.items()
    )


# A trie: the prefixes of words, with how many words begin so.

TRIE_TEXTS = {"words": "word long", "letters": "word long, pos long, letter string"}
TRIE = {name: _schema(text) for name, text in TRIE_TEXTS.items()}


def _trie_flow() -> ps.Dataflow:
    flow = ps.Dataflow("trie")
    words, letters = _tables(flow, TRIE)
    first = letters.filter(ps.col("pos") == 0)
    start = words.join(first, "word").select("word", "pos", prefix=ps.col("letter"))

    def longer(walks: ps.Table, start: ps.Table, letters: ps.Table) -> ps.Table:
        before = walks.select("word", "prefix", following=ps.col("pos") + 1)
        step = before.join(letters, {"word": "word", "following": "pos"})
        prefix = F.concat(ps.col("prefix"), ps.col("letter"))
        return start.union(step.select("word", pos=ps.col("following"), prefix=prefix)).distinct()

    walks = start.iterate(longer, start, letters, max_rounds=30)
    flow.output("result", walks.group_by("prefix").agg(words=ps.count()))
    return flow


def _trie_sql() -> ps.Dataflow:
    return ps.sql(
        _declared(TRIE_TEXTS)
        + """
        with recursive walks(word, pos, prefix) as (
            select w.word, l.pos, l.letter from words w join letters l on w.word = l.word where l.pos = 0
            union
            select k.word, l.pos, k.prefix || l.letter from walks k join letters l
            on k.word = l.word and k.pos + 1 = l.pos)
        select prefix, count(*) as words from walks group by prefix"""
    )


def _trie_rows(random: Random) -> dict[str, list[Row]]:
    texts = ["".join(random.choice("ab") for _ in range(random.randint(1, 5))) for _ in range(5)]
    letters = [(word, pos, letter) for word, text in enumerate(texts) for pos, letter in enumerate(text)]
    return {"words": [(word,) for word in range(len(texts))], "letters": letters}


def _trie_expected(facts: Facts) -> dict[str, Counter[Row]]:
    letters: dict[tuple[int, int], set[str]] = {}
    for word, pos, letter in facts["letters"]:
        letters.setdefault((word, pos), set()).add(letter)
    walks: set[tuple[int, str]] = set()
    for (word,) in facts["words"]:
        prefixes, pos = {""}, 0
        while prefixes:
            prefixes = {prefix + letter for prefix in prefixes for letter in letters.get((word, pos), ())}
            walks |= {(word, prefix) for prefix in prefixes}
            pos += 1
    counts = Counter(prefix for _, prefix in walks)
    return {"result": Counter(dict.fromkeys(counts.items(), 1))}


# What can be reached.

CLOSURE_TEXTS = {"edges": "src long, dst long", "starts": "node long"}
CLOSURE = {name: _schema(text) for name, text in CLOSURE_TEXTS.items()}


def _closure_flow() -> ps.Dataflow:
    flow = ps.Dataflow("closure")
    edges, starts = _tables(flow, CLOSURE)
    start = starts.select(root=ps.col("node"), node=ps.col("node")).distinct()

    def further(reached: ps.Table, start: ps.Table, edges: ps.Table) -> ps.Table:
        step = reached.join(edges, {"node": "src"}).select("root", node=ps.col("dst"))
        return start.union(step).distinct()

    flow.output("result", start.iterate(further, start, edges, max_rounds=30))
    return flow


def _closure_sql() -> ps.Dataflow:
    return ps.sql(
        _declared(CLOSURE_TEXTS)
        + """
        with recursive reached(root, node) as (
            select node, node from starts
            union
            select r.root, e.dst from reached r join edges e on r.node = e.src)
        select root, node from reached"""
    )


def _closure_rows(random: Random) -> dict[str, list[Row]]:
    edges = [(random.randrange(6), random.randrange(6)) for _ in range(12)]
    return {"edges": edges, "starts": [(0,), (3,)]}


def _closure_expected(facts: Facts) -> dict[str, Counter[Row]]:
    reached = {(node, node) for (node,) in facts["starts"]}
    waiting = list(reached)
    while waiting:
        root, node = waiting.pop()
        for src, dst in facts["edges"]:
            if src == node and (root, dst) not in reached:
                reached.add((root, dst))
                waiting.append((root, dst))
    return {"result": Counter(dict.fromkeys(reached, 1))}


# Rights.


def _rights_sql() -> ps.Dataflow:
    texts = {name: f"{schema.names[0]} string, {schema.names[1]} string" for name, schema in RIGHTS.items()}
    return ps.sql(
        _declared(texts)
        + """
        create view members as
            select grp, user from direct
            union select n.grp, m.user from nested n join members m on n.sub = m.grp
            union select o.grp, v.user from owners o join viewers v on o.folder = v.item;
        create view viewers as
            select g.item, m.user from grants g join members m on g.grp = m.grp
            union select p.item, v.user from parents p join viewers v on p.folder = v.item;"""
    )


def _rights_rows(random: Random) -> dict[str, list[Row]]:
    names = {"user": "uvw", "grp": "abc", "sub": "abc", "item": "fgd", "folder": "fg"}
    return {
        name: [
            (random.choice(names[schema.names[0]]), random.choice(names[schema.names[1]])) for _ in range(4)
        ]
        for name, schema in RIGHTS.items()
    }


def _rights_expected(facts: Facts) -> dict[str, Counter[Row]]:
    members, viewers = brute_rights({name: set(rows) for name, rows in facts.items()})
    return {"members": Counter(dict.fromkeys(members, 1)), "viewers": Counter(dict.fromkeys(viewers, 1))}


CASES = {
    "trie": Case(TRIE, _trie_rows, {"verbs": _trie_flow, "sql": _trie_sql}, _trie_expected),
    "closure": Case(CLOSURE, _closure_rows, {"verbs": _closure_flow, "sql": _closure_sql}, _closure_expected),
    "rights": Case(RIGHTS, _rights_rows, {"verbs": rights_flow, "sql": _rights_sql}, _rights_expected),
}


# Schedules.


def _changes(case: Case, random: Random) -> list[Change]:
    """Return rows that come, and of which some go, each while it is there."""
    made: list[Change] = []
    for name, rows in case.rows(random).items():
        for row in dict.fromkeys(rows):
            made.append((name, row, 1))
    random.shuffle(made)
    gone = [(place, each) for place, each in enumerate(made) if random.random() < 0.4]
    for place, (name, row, _) in sorted(gone, reverse=True, key=lambda each: each[0]):
        made.insert(random.randint(place + 1, len(made)), (name, row, -1))
    return made


def _cut(changes: Sequence[Change], random: Random) -> list[list[Change]]:
    epochs: list[list[Change]] = [[]]
    for each in changes:
        if random.random() < 0.3:
            epochs.append([])
        epochs[-1].append(each)
    return epochs


def _schedules(case: Case, changes: Sequence[Change], random: Random) -> dict[str, list[list[Change]]]:
    names = list(case.inputs)
    random.shuffle(names)
    one_by_one = [[each for each in changes if each[0] == name] for name in names]
    return {
        "at once": [list(changes)],
        "cut": _cut(changes, random),
        "one by one": one_by_one,
        "one by one, cut": [part for each in one_by_one for part in _cut(each, random)],
        "each alone": [[each] for each in changes],
    }


@pytest.mark.parametrize("written", ["verbs", "sql"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_a_recursion_does_not_depend_on_how_its_inputs_are_cut(name: str, written: str, seed: int) -> None:
    _check(CASES[name], written, seed)


@pytest.mark.long
@pytest.mark.parametrize("written", ["verbs", "sql"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_recursions_do_not_depend_on_how_their_inputs_are_cut(
    name: str, written: str, seed: int
) -> None:
    _check(CASES[name], written, seed)


def _check(case: Case, written: str, seed: int) -> None:
    random = Random(seed)
    changes = _changes(case, random)
    last = []
    for schedule, epochs in _schedules(case, changes, random).items():
        fed = {
            name: [
                table_of([(*row, weight) for which, row, weight in _added(each) if which == name], schema)
                for each in epochs
            ]
            for name, schema in case.inputs.items()
        }
        results = case.flows[written]().run(fed, workers=1 + seed % 3)
        facts: Facts = {name: Counter() for name in case.inputs}
        outputs = case.expected(facts)
        found = {name: put_out(results[name], len(epochs)) for name in outputs}
        for number, each in enumerate(epochs):
            for which, row, weight in each:
                facts[which][row] += weight
            there = {which: +rows for which, rows in facts.items()}
            for name, expected in case.expected(there).items():
                assert found[name][number] == expected, f"{schedule}, epoch {number} of '{name}'"
        last.append({name: tables[-1] for name, tables in found.items()})
    assert all(each == last[0] for each in last)


def _added(changes: Sequence[Change]) -> list[Change]:
    """Return the changes of an epoch, in which a row that came and went is not there."""
    totals: Counter[tuple[str, Row]] = Counter()
    for name, row, weight in changes:
        totals[name, row] += weight
    return [(name, row, weight) for (name, row), weight in totals.items() if weight]


def test_rows_come_go_and_have_effects_by_recursion() -> None:
    """The tests above would be weak if nothing ever went, or nothing followed from what followed."""
    for case in CASES.values():
        went = sum(weight < 0 for seed in range(3) for *_, weight in _changes(case, Random(seed)))
        assert went > 5
    for seed in range(3):
        rows = {name: Counter(dict.fromkeys(each, 1)) for name, each in _trie_rows(Random(seed)).items()}
        assert any(len(prefix) > 2 for prefix, _ in _trie_expected(rows)["result"])
